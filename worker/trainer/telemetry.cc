#include "worker/trainer/telemetry.h"

#include <algorithm>

#include "worker/metrics/record.h"

namespace coat {
namespace {

constexpr const char* kOperandNames[kOperands] = {"activation", "weight", "gradient", "group"};

coatrack::v1::Histogram Expansion(Optimizer* optimizer, bool second_moment) {
  const KHistogram histogram = optimizer->ExpansionK(second_moment);
  return MakeHistogram(histogram.bounds, histogram.counts);
}

}  // namespace

void ReportMemory(const Session& session, coatrack::v1::StepRecord* record) {
  // A GPU's arena is not part of the resident bytes of the host.
  const bool on_host = session.ops->device() == DeviceType::kCpu;
  const int64_t resident = ResidentBytes() - (on_host ? session.arena->bytes() : 0);
  SetKindBytes(session.arena->bytes_by_kind(), std::max<int64_t>(0, resident),
               record->mutable_memory());
  SetKindBytes(session.plan.bytes_by_kind, std::nullopt, record->mutable_memory_planned());
  SetKindBytes(session.planned_bf16, std::nullopt, record->mutable_memory_planned_bf16());
}

void ReportTelemetry(const Session& session, coatrack::v1::StepRecord* record) {
  ReportMemory(session, record);
  record->set_optimizer_state(session.optimizer->StateName());
  for (int i = 0; i < kOperands; ++i) {
    std::array<float, 8> counters{};
    session.ops->ToHost(session.model->health(static_cast<Operand>(i)), counters.data());
    session.ops->Synchronize();
    const auto health = MakeHealth(kOperandNames[i], counters);
    if (health) *record->add_health() = *health;
  }
  *record->mutable_expansion_k_m() = Expansion(session.optimizer.get(), false);
  *record->mutable_expansion_k_v() = Expansion(session.optimizer.get(), true);
}

}  // namespace coat
