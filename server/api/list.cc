#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::List(Context* context,
                                               const coatrack::v1::ListRequest* request,
                                               coatrack::v1::ListResponse* response) {
  const UnaryCall call(coordinator_, "List", context);
  coordinator_->ListJobs(*request, call.Into(response));
  return call.reactor();
}

}  // namespace coat
