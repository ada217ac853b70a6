#include "server/api/answer.h"
#include "server/api/services.h"
#include "server/api/spec_check.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::Submit(Context* context,
                                                 const coatrack::v1::SubmitRequest* request,
                                                 coatrack::v1::SubmitResponse* response) {
  const UnaryCall call(coordinator_, "Submit", context);
  constexpr size_t kMaxRequestId = 128;
  if (request->request_id().size() > kMaxRequestId) {
    call.Finish({grpc::StatusCode::INVALID_ARGUMENT, "request_id: at most 128 bytes"});
    return call.reactor();
  }
  CheckedSpec checked = CheckSpec(request->spec(), /*with_bf16=*/false);
  if (!checked.violations.empty()) {
    call.Finish(ToGrpc(checked.violations));
    return call.reactor();
  }
  const std::vector<std::string> warnings = coordinator_->Warn(checked.submission);
  if (request->validate_only()) {
    *response->mutable_job()->mutable_spec() = request->spec();
    response->mutable_job()->set_steps(checked.submission.effective.train().steps());
    response->mutable_job()->set_predicted_bytes(checked.plan.total_bytes);
    response->mutable_warnings()->Assign(warnings.begin(), warnings.end());
    call.Finish(grpc::Status::OK);
    return call.reactor();
  }
  checked.submission.request_id = request->request_id();
  coordinator_->Submit(std::move(checked.submission),
                       [call, response, warnings](Result<coatrack::v1::SubmitResponse> result) {
                         if (result.ok()) {
                           *response = std::move(*result);
                           response->mutable_warnings()->Assign(warnings.begin(), warnings.end());
                         }
                         call.Finish(ToGrpc(result.status()));
                       });
  return call.reactor();
}

}  // namespace coat
