#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* WorkerServiceImpl::PushRecords(
    Context* context, const coatrack::v1::PushRecordsRequest* request,
    coatrack::v1::PushRecordsResponse* response) {
  const UnaryCall call(coordinator_, "PushRecords", context);
  coordinator_->PushRecords(*request, call.Into(response));
  return call.reactor();
}

}  // namespace coat
