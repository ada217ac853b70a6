#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* WorkerServiceImpl::GetRendezvous(
    Context* context, const coatrack::v1::GetRendezvousRequest* request,
    coatrack::v1::GetRendezvousResponse* response) {
  const UnaryCall call(coordinator_, "GetRendezvous", context);
  coordinator_->GetRendezvous(*request, call.Into(response));
  return call.reactor();
}

}  // namespace coat
