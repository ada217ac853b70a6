#include "server/api/answer.h"
#include "server/api/services.h"
#include "server/api/spec_check.h"

namespace coat {

grpc::ServerUnaryReactor* JobServiceImpl::Plan(Context* context,
                                               const coatrack::v1::PlanRequest* request,
                                               coatrack::v1::PlanResponse* response) {
  const UnaryCall call(coordinator_, "Plan", context);
  const CheckedSpec checked = CheckSpec(request->spec(), /*with_bf16=*/true);
  if (!checked.violations.empty()) {
    call.Finish(ToGrpc(checked.violations));
    return call.reactor();
  }
  *response = coordinator_->Place(checked.submission);
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    coatrack::v1::PlannedKind* planned = response->add_kinds();
    planned->set_kind(MemoryKindName(static_cast<MemoryKind>(kind)));
    planned->set_bytes(checked.plan.bytes_by_kind[kind]);
    planned->set_bf16_bytes(checked.bf16_plan.bytes_by_kind[kind]);
  }
  response->set_total_bytes(checked.plan.total_bytes);
  response->set_bf16_total_bytes(checked.bf16_plan.total_bytes);
  response->set_parameters(checked.plan.parameters);
  call.Finish(grpc::Status::OK);
  return call.reactor();
}

}  // namespace coat
