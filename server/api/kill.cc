#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::Kill(Context* context,
                                               const coatrack::v1::KillRequest* request,
                                               coatrack::v1::KillResponse* response) {
  const UnaryCall call(coordinator_, "Kill", context);
  coordinator_->Stop(request->job(), /*now=*/true, request->message(),
                     call.Into(response->mutable_job()));
  return call.reactor();
}

}  // namespace coat
