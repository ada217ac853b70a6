#include <algorithm>

#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;

}  // namespace

grpc::ServerUnaryReactor* JobServiceImpl::ListEvents(Context* context,
                                                     const coatrack::v1::ListEventsRequest* request,
                                                     coatrack::v1::ListEventsResponse* response) {
  const UnaryCall call(coordinator_, "ListEvents", context);
  const Result<JobTable::Known> known = coordinator_->Resolve(request->job());
  if (!known.ok()) {
    call.Finish(ToGrpc(known.status()));
    return call.reactor();
  }
  const int page =
      request->page_size() <= 0 ? kDefaultPage : std::min(request->page_size(), kMaxPage);
  coordinator_->ReadEvents(
      known->sequence, request->after_sequence(), page + 1,
      [call, response, page](Result<std::vector<coatrack::v1::JobEvent>> events) {
        if (events.ok()) {
          response->set_more(static_cast<int>(events->size()) > page);
          if (response->more()) events->pop_back();
          for (coatrack::v1::JobEvent& event : *events) *response->add_events() = std::move(event);
        }
        call.Finish(ToGrpc(events.status()));
      });
  return call.reactor();
}

}  // namespace coat
