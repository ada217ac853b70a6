#include "server/api/answer.h"
#include "server/api/services.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::GetServerInfo(
    Context* context, const coatrack::v1::GetServerInfoRequest* /*request*/,
    coatrack::v1::GetServerInfoResponse* response) {
  const UnaryCall call(coordinator_, "GetServerInfo", context);
  *response = coordinator_->Info();
  response->set_version(identity_.version);
  response->set_metrics_address(identity_.metrics_address);
  call.Finish(grpc::Status::OK);
  return call.reactor();
}

}  // namespace coat
