#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* WorkerServiceImpl::PushLogs(Context* context,
                                                      const coatrack::v1::PushLogsRequest* request,
                                                      coatrack::v1::PushLogsResponse* response) {
  const UnaryCall call(coordinator_, "PushLogs", context);
  coordinator_->PushLogs(*request, call.Into(response));
  return call.reactor();
}

}  // namespace coat
