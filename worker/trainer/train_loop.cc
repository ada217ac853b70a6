#include "worker/trainer/train_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "configs/base/error.h"
#include "worker/metrics/throughput.h"
#include "worker/trainer/checkpointing.h"
#include "worker/trainer/evaluate.h"
#include "worker/trainer/telemetry.h"
#include "worker/trainer/weights_hash.h"

namespace coat {
namespace {

using coatrack::v1::Phase;
using coatrack::v1::StepRecord;
using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

}  // namespace

TrainLoop::TrainLoop(Session* session, Progress* progress, const std::atomic<bool>* stop)
    : session_(*session),
      progress_(*progress),
      stop_(*stop),
      steps_(session->spec.train().steps()),
      first_step_(session->state.step + 1),
      reducer_(session->model->parameters(), session->collectives.get()),
      results_(session->ops.get(), session->steps_ahead) {}

Outcome TrainLoop::Run() {
  const bool resumed = session_.state.step > 0;
  HashWeights();
  if (resumed) {
    saved_step_ = session_.state.step;
  } else {
    progress_.Write(BeforeFirstStep());
  }
  PrepareNext();
  Outcome outcome = Outcome::kCompleted;
  while (session_.state.step < steps_) {
    if (AnyRankStops()) {
      outcome = Outcome::kStopped;
      break;
    }
    progress_.Enter(Phase::PHASE_STEP, session_.state.step - results_.pending());
    QueueStep();
    Report(session_.steps_ahead);
    PrepareNext();
    const int64_t step = session_.state.step;
    if (DeviceIsReadAfter(step)) {
      Report(0);
      results_.Pause();
    }
    if (CheckpointDue(step)) {
      HashWeights();
      Save(/*must_succeed=*/false);
    }
  }
  Report(0);
  HashWeights();
  Save(/*must_succeed=*/true);
  progress_.Enter(Phase::PHASE_DONE, session_.state.step);
  StepRecord last;
  last.set_step(session_.state.step);
  last.set_weights_hash(weights_hash_);
  last.set_optimizer_state(session_.optimizer->StateName());
  progress_.Write(last);
  return outcome;
}

StepRecord TrainLoop::BeforeFirstStep() {
  StepRecord record;
  EvaluateInto(&record);
  record.set_optimizer_state(session_.optimizer->StateName());
  record.set_weights_hash(weights_hash_);
  ReportMemory(session_, &record);
  return record;
}

void TrainLoop::QueueStep() {
  TrainState& state = session_.state;
  Model& model = *session_.model;
  const bool telemetry = TelemetryDue(++state.step);
  std::swap(now_, next_);
  state.position = now_.next;
  results_.Begin();
  const Tensor inverse_count = session_.feeder->UploadInverseCount(now_);
  model.SetTelemetry(telemetry);
  session_.optimizer->SetTelemetry(telemetry);
  model.ResetStep();
  TrainMicrobatches(inverse_count);
  AllReduceRest();
  session_.optimizer->Step(state.step, model.nonfinite(), inverse_count);
  model.WeightsUpdated();
  results_.Queue(state.step, now_, model.nll(), session_.optimizer.get());
}

// Into the memory of the step before the one queued last, which the device has done with: its
// result was taken.
void TrainLoop::PrepareNext() {
  if (session_.state.step == steps_) return;
  const int64_t mine = session_.microbatches_per_rank();
  session_.feeder->Prepare(session_.state.position, session_.rank() * mine, mine, &next_);
}

// The gradients are summed over ranks while the last microbatch computes them.
void TrainLoop::TrainMicrobatches(const Tensor& inverse_count) {
  Model& model = *session_.model;
  const bool alone = session_.world_size() == 1;
  for (int64_t i = 0; i < now_.microbatches; ++i) {
    const Batch microbatch = session_.feeder->Upload(now_, i);
    if (!alone && i + 1 == now_.microbatches) {
      model.WatchGradients([this](int64_t first, int64_t count) { reducer_.Ready(first, count); });
    }
    model.TrainMicrobatch(microbatch, inverse_count, /*first_of_step=*/i == 0);
  }
  if (alone) return;
  model.WatchGradients(nullptr);
  reducer_.Finish();
}

// What else the update needs; all ranks get the same bits, so all decide alike.
void TrainLoop::AllReduceRest() {
  session_.collectives->AllReduceSum(session_.model->nonfinite());
  session_.collectives->AllReduceSum(session_.model->nll());
}

void TrainLoop::Report(int64_t pending) {
  while (results_.pending() > pending) ReportStep(results_.Take());
}

// What needs more than the result is on the device only while the step is the last one queued.
void TrainLoop::ReportStep(const StepResult& result) {
  StepRecord record = Account(result);
  ThrowIfEndless(result.step);
  if (result.step == session_.state.step) ReportReduceTimes(&record);
  if (TelemetryDue(result.step)) ReportTelemetry(session_, &record);
  if (EvaluationDue(result.step)) EvaluateInto(&record);
  progress_.Write(record);
}

StepRecord TrainLoop::Account(const StepResult& result) {
  TrainState& state = session_.state;
  StepRecord record;
  record.set_step(result.step);
  const bool applied = result.update.apply != 0;
  state.applied_steps = result.update.t;
  record.set_applied_steps(result.update.t);
  record.set_tokens(result.sequences * session_.spec.train().sequence_length());
  state.tokens_total += record.tokens();
  record.set_tokens_total(state.tokens_total);
  if (result.valid_targets > 0) {
    record.set_loss(static_cast<double>(result.nll) / static_cast<double>(result.valid_targets));
    record.set_grad_norm(result.update.grad_norm);
    state.finite = std::isfinite(result.nll);
    nonfinite_in_a_row_ = applied ? 0 : nonfinite_in_a_row_ + 1;
  }
  record.set_learning_rate(LearningRate(session_.spec.optimizer(), result.step, steps_));
  if (applied && result.update.weight_sq > 0) {
    record.set_update_to_weight_ratio(std::sqrt(result.update.update_sq / result.update.weight_sq));
  }
  if (!applied) ++state.skipped_total;
  record.set_skipped(!applied);
  record.set_skipped_total(state.skipped_total);
  record.set_step_seconds(result.seconds);
  if (session_.peak_flops) {
    record.set_mfu_ratio(MfuRatio(TrainFlopsPerToken(session_.spec), record.tokens(),
                                  record.step_seconds(), session_.world_size(),
                                  *session_.peak_flops));
  }
  return record;
}

void TrainLoop::ReportReduceTimes(StepRecord* record) const {
  if (session_.world_size() == 1) return;
  const ReduceTimes times = session_.collectives->reduce_times();
  record->set_all_reduce_seconds(times.busy_seconds);
  record->set_all_reduce_wait_seconds(times.waited_seconds);
}

void TrainLoop::ThrowIfEndless(int64_t step) const {
  if (nonfinite_in_a_row_ < kMaxNonfiniteSteps) return;
  throw Error(Code::kNumeric, "step " + std::to_string(step) + ": gradients were not finite in " +
                                  std::to_string(nonfinite_in_a_row_) +
                                  " steps in a row; use a smaller optimizer.lr or a longer "
                                  "warmup, and resume from an earlier checkpoint");
}

bool TrainLoop::AnyRankStops() {
  bool any = false;
  for (const int64_t stops : session_.collectives->AllGather(stop_ ? 1 : 0)) any |= stops != 0;
  return any;
}

void TrainLoop::EvaluateInto(StepRecord* record) {
  progress_.Enter(Phase::PHASE_EVALUATE, session_.state.step);
  const std::optional<double> loss = Evaluate(&session_);
  if (loss) record->set_validation_loss(*loss);
}

void TrainLoop::HashWeights() {
  if (hashed_step_ == session_.state.step) return;
  hashed_step_ = session_.state.step;
  weights_hash_ = WeightsHash(session_.model->parameters(), session_.ops.get(),
                              std::max(1, session_.launch.threads()));
  CompareOverRanks(session_.collectives.get(), weights_hash_, Code::kInternal,
                   "step " + std::to_string(session_.state.step) + ": the weights");
}

void TrainLoop::Save(bool must_succeed) {
  const int64_t step = session_.state.step;
  if (session_.launch.checkpoint_dir().empty() || saved_step_ == step) return;
  progress_.Enter(Phase::PHASE_SAVE, step);
  const SteadyClock::time_point start = SteadyClock::now();
  StepRecord record;
  record.set_step(step);
  record.set_weights_hash(weights_hash_);
  try {
    const CheckpointInfo info = SaveCheckpoint(&session_, weights_hash_);
    saved_step_ = step;
    record.set_checkpoint(info.path);
    record.set_checkpoint_bytes(info.bytes);
  } catch (const Error& e) {
    // A full disk must not end a run that can go on; the next save may find room again.
    if (must_succeed || e.code() != Code::kResourceExhausted) throw;
    std::fprintf(stderr, "step %lld: no checkpoint: %s\n", static_cast<long long>(step), e.what());
    return;
  }
  record.set_checkpoint_seconds(SecondsSince(start));
  progress_.Write(record);
}

bool TrainLoop::TelemetryDue(int64_t step) const {
  const int64_t every = session_.spec.train().telemetry_every_steps();
  return every > 0 && (step % every == 0 || step == first_step_ || step == steps_);
}

bool TrainLoop::EvaluationDue(int64_t step) const {
  const int64_t every = session_.spec.train().eval_every_steps();
  return step == steps_ || (every > 0 && step % every == 0);
}

bool TrainLoop::CheckpointDue(int64_t step) const {
  const int64_t every = session_.spec.checkpoint().every_steps();
  return every > 0 && step % every == 0;
}

bool TrainLoop::DeviceIsReadAfter(int64_t step) const {
  return TelemetryDue(step) || EvaluationDue(step) || CheckpointDue(step);
}

}  // namespace coat
