#include "worker/trainer/telemetry.h"

#include <algorithm>

#include "worker/metrics/record.h"

namespace coat {
namespace {

constexpr const char* kOperandNames[kOperands] = {"activation", "weight", "gradient", "group"};

void AddHealth(const std::string& operand, const std::array<float, 8>& counters,
               coatrack::v1::StepRecord* record) {
  const auto health = MakeHealth(operand, counters);
  if (health) *record->add_health() = *health;
}

// What lies outside the arena: of the device that holds it, or of this process.
int64_t OtherBytes(const Session& session) {
  const auto used = session.ops->device_used_bytes();
  return std::max<int64_t>(0, used.value_or(ResidentBytes()) - session.arena->bytes());
}

coatrack::v1::Histogram Expansion(Optimizer* optimizer, bool second_moment) {
  const KHistogram histogram = optimizer->ExpansionK(second_moment);
  return MakeHistogram(histogram.bounds, histogram.counts);
}

}  // namespace

void ReportMemory(const Session& session, coatrack::v1::StepRecord* record) {
  SetKindBytes(session.arena->bytes_by_kind(), OtherBytes(session), record->mutable_memory());
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
    AddHealth(kOperandNames[i], counters, record);
  }
  if (!record->skipped()) {  // else the optimizer sampled nothing
    const MomentHealth moments = session.optimizer->moment_health();
    AddHealth("moment_m", moments.m, record);
    AddHealth("moment_v", moments.v, record);
  }
  *record->mutable_expansion_k_m() = Expansion(session.optimizer.get(), false);
  *record->mutable_expansion_k_v() = Expansion(session.optimizer.get(), true);
}

}  // namespace coat
