// Where a rank is, for whoever watches it (PROTOCOLS.md section 8).
#pragma once

#include <cstdint>
#include <mutex>

#include "coatrack/v1/events.pb.h"
#include "configs/base/clock.h"
#include "worker/collectives/collectives.h"
#include "worker/trainer/record_file.h"

namespace coat {

// Stamps records with attempt, rank, phase, sequence and time, and writes records that only show
// progress. Thread-safe: the loop writes, a second thread calls Tick.
class Progress {
 public:
  Progress(int attempt, int rank, RecordSink* sink, const Clock* clock);

  // Whose calls are counted; must stay alive until SetCollectives(nullptr) or the end.
  void SetCollectives(const Collectives* collectives);
  // A phase begins; `step` is the last one done. Written at once, except for steps, which begin too
  // often, and the end, which has a record of its own.
  void Enter(coatrack::v1::Phase phase, int64_t step);
  // Fills in the stamp and writes the record.
  void Write(coatrack::v1::StepRecord record);
  // Writes a progress record when phase, step or sequence moved since the last record.
  void Tick();

 private:
  void Stamp(coatrack::v1::StepRecord* record) const;
  void WriteLocked(const coatrack::v1::StepRecord& record);

  const int attempt_, rank_;
  RecordSink* const sink_;
  const Clock* const clock_;
  std::mutex mutex_;
  const Collectives* collectives_ = nullptr;
  coatrack::v1::Phase phase_ = coatrack::v1::PHASE_LOAD;
  int64_t step_ = 0;
  uint64_t written_sequence_ = 0;
  coatrack::v1::Phase written_phase_ = coatrack::v1::PHASE_UNSPECIFIED;
};

}  // namespace coat
