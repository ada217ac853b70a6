#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::ListCheckpoints(
    Context* context, const coatrack::v1::ListCheckpointsRequest* request,
    coatrack::v1::ListCheckpointsResponse* response) {
  const UnaryCall call(coordinator_, "ListCheckpoints", context);
  const Result<JobTable::Known> known = coordinator_->Resolve(request->job());
  if (known.ok()) {
    for (coatrack::v1::Checkpoint& checkpoint : coordinator_->Checkpoints(known->id)) {
      *response->add_checkpoints() = std::move(checkpoint);
    }
  }
  call.Finish(ToGrpc(known.status()));
  return call.reactor();
}

}  // namespace coat
