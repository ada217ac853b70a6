// The training loop of one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "coatrack/v1/events.pb.h"
#include "worker/trainer/gradient_reducer.h"
#include "worker/trainer/progress.h"
#include "worker/trainer/session.h"
#include "worker/trainer/step_results.h"

namespace coat {

enum class Outcome { kCompleted, kStopped };

// So many steps in a row without finite gradients end the run: Error(kNumeric).
inline constexpr int64_t kMaxNonfiniteSteps = 100;

// Runs from session->state.step to train.steps. What ranks do together, and its order, is the same
// on all of them: a request to stop any rank, seen between two steps, stops all after the same
// step, with a checkpoint. Records: one a step; step 0 carries the validation loss before training.
//
// A step is queued on the device without waiting, and before the results of the step before it are
// read (Session::steps_ahead), so that the device never waits for the host; the host prepares the
// samples of the next step meanwhile. Records come in order, each when its step is done. All steps
// are done, and their records written, before telemetry, an evaluation, a checkpoint and the end.
// Only the end by kMaxNonfiniteSteps comes up to steps_ahead steps late, on all ranks alike. The
// position in the data moves when a step takes its samples, so what is prepared but not trained on
// is not counted: a checkpoint, a resume and the order of the samples don't notice.
class TrainLoop {
 public:
  // `stop` may be set by any thread at any time. All arguments outlive the loop.
  TrainLoop(Session* session, Progress* progress, const std::atomic<bool>* stop);

  // Throws Error of any part; the run is then over.
  Outcome Run();
  const std::string& weights_hash() const { return weights_hash_; }

 private:
  coatrack::v1::StepRecord BeforeFirstStep();
  void QueueStep();
  void PrepareNext();
  void TrainMicrobatches(const Tensor& inverse_count);
  void AllReduceRest();
  // Takes results and writes records until no more than `pending` steps are left.
  void Report(int64_t pending);
  void ReportStep(const StepResult& result);
  coatrack::v1::StepRecord Account(const StepResult& result);
  void ReportReduceTimes(coatrack::v1::StepRecord* record) const;  // of the step queued last
  void ThrowIfEndless(int64_t step) const;
  bool AnyRankStops();
  void EvaluateInto(coatrack::v1::StepRecord* record);
  void HashWeights();
  void Save(bool must_succeed);

  bool TelemetryDue(int64_t step) const;
  bool EvaluationDue(int64_t step) const;
  bool CheckpointDue(int64_t step) const;
  bool DeviceIsReadAfter(int64_t step) const;

  Session& session_;
  Progress& progress_;
  const std::atomic<bool>& stop_;
  const int64_t steps_;
  const int64_t first_step_;  // of this attempt
  GradientReducer reducer_;
  StepResults results_;
  PreparedStep now_, next_;  // of the step queued last, and what comes then
  int64_t nonfinite_in_a_row_ = 0;
  int64_t saved_step_ = -1;
  int64_t hashed_step_ = -1;
  std::string weights_hash_;
};

}  // namespace coat
