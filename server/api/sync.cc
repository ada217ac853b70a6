#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* WorkerServiceImpl::Sync(Context* context,
                                                  const coatrack::v1::SyncRequest* request,
                                                  coatrack::v1::SyncResponse* response) {
  const UnaryCall call(coordinator_, "Sync", context);
  coordinator_->Sync(*request, call.Into(response));
  return call.reactor();
}

}  // namespace coat
