#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::Get(Context* context,
                                              const coatrack::v1::GetRequest* request,
                                              coatrack::v1::GetResponse* response) {
  const UnaryCall call(coordinator_, "Get", context);
  const Result<JobTable::Known> known = coordinator_->Resolve(request->job());
  if (!known.ok()) {
    call.Finish(ToGrpc(known.status()));
    return call.reactor();
  }
  coordinator_->GetJob(known->sequence, call.Into(response->mutable_job()));
  return call.reactor();
}

}  // namespace coat
