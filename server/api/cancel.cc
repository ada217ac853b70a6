#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::Cancel(Context* context,
                                                 const coatrack::v1::CancelRequest* request,
                                                 coatrack::v1::CancelResponse* response) {
  const UnaryCall call(coordinator_, "Cancel", context);
  coordinator_->Stop(request->job(), /*now=*/false, request->message(),
                     call.Into(response->mutable_job()));
  return call.reactor();
}

}  // namespace coat
