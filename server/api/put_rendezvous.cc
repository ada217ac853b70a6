#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* WorkerServiceImpl::PutRendezvous(
    Context* context, const coatrack::v1::PutRendezvousRequest* request,
    coatrack::v1::PutRendezvousResponse* /*response*/) {
  const UnaryCall call(coordinator_, "PutRendezvous", context);
  call.Finish(ToGrpc(coordinator_->PutRendezvous(*request)));
  return call.reactor();
}

}  // namespace coat
