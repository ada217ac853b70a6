#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::ListWorkers(
    Context* context, const coatrack::v1::ListWorkersRequest* /*request*/,
    coatrack::v1::ListWorkersResponse* response) {
  const UnaryCall call(coordinator_, "ListWorkers", context);
  for (coatrack::v1::Worker& worker : coordinator_->Workers()) {
    *response->add_workers() = std::move(worker);
  }
  call.Finish(grpc::Status::OK);
  return call.reactor();
}

}  // namespace coat
