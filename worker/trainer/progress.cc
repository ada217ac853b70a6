#include "worker/trainer/progress.h"

#include "worker/metrics/record.h"

namespace coat {

using coatrack::v1::Phase;
using coatrack::v1::StepRecord;

Progress::Progress(int attempt, int rank, RecordSink* sink, const Clock* clock)
    : attempt_(attempt), rank_(rank), sink_(sink), clock_(clock) {}

void Progress::SetCollectives(const Collectives* collectives) {
  const std::lock_guard lock(mutex_);
  collectives_ = collectives;
}

void Progress::Enter(Phase phase, int64_t step) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  step_ = step;
  if (phase == Phase::PHASE_STEP || phase == Phase::PHASE_DONE) return;
  StepRecord record;
  record.set_step(step);
  Stamp(&record);
  WriteLocked(record);
}

void Progress::Write(StepRecord record) {
  const std::lock_guard lock(mutex_);
  step_ = record.step();
  Stamp(&record);
  WriteLocked(record);
}

void Progress::Tick() {
  const std::lock_guard lock(mutex_);
  StepRecord record;
  record.set_step(step_);
  Stamp(&record);
  if (record.collective_sequence() == written_sequence_ && phase_ == written_phase_) return;
  WriteLocked(record);
}

void Progress::Stamp(StepRecord* record) const {
  record->set_attempt(attempt_);
  record->set_rank(rank_);
  record->set_phase(phase_);
  record->set_collective_sequence(collectives_ == nullptr ? 0 : collectives_->sequence());
  *record->mutable_time() = MakeTimestamp(clock_->WallMs());
}

void Progress::WriteLocked(const StepRecord& record) {
  written_sequence_ = record.collective_sequence();
  written_phase_ = record.phase();
  sink_->Write(record);
}

}  // namespace coat
