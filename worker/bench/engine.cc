#include "worker/bench/engine.h"

#include <chrono>
#include <random>
#include <utility>

#include "configs/base/error.h"
#include "configs/spec/defaults.h"
#include "configs/spec/reader.h"
#include "configs/spec/validate.h"
#include "worker/model/recorded.h"
#include "worker/trainer/step_results.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;

class UniformTokens final : public Dataset {
 public:
  UniformTokens(int64_t vocab, int64_t sequence_length)
      : vocab_(vocab), sequence_length_(sequence_length) {}

  int64_t train_samples() const override { return int64_t{1} << 40; }
  int64_t validation_samples() const override { return 0; }
  int64_t vocab_size() const override { return vocab_; }
  int64_t tokens() const override { return train_samples() * sequence_length_; }
  Sample Train(int64_t epoch, int64_t index) const override {
    std::mt19937_64 random(static_cast<uint64_t>(epoch * 1'000'003 + index));
    Sample sample;
    int32_t next = Draw(&random);
    for (int64_t i = 0; i < sequence_length_; ++i) {
      sample.tokens.push_back(next);
      next = Draw(&random);
      sample.targets.push_back(next);
    }
    return sample;
  }
  Sample Validation(int64_t) const override {
    throw Error(Code::kInvalidArgument, "random tokens have no validation part");
  }
  const coatrack::v1::DataManifest& manifest() const override { return manifest_; }

 private:
  int32_t Draw(std::mt19937_64* random) const {
    return static_cast<int32_t>((*random)() % static_cast<uint64_t>(vocab_));
  }

  int64_t vocab_, sequence_length_;
  coatrack::v1::DataManifest manifest_;
};

}  // namespace

JobSpec BenchJob(const BenchShape& shape, int64_t steps) {
  JobSpec spec;
  spec.set_name("bench");
  spec.mutable_model()->set_preset(shape.preset);
  auto* train = spec.mutable_train();
  train->set_steps(steps);
  train->set_sequence_length(shape.sequence_length);
  train->set_micro_batch(shape.micro_batch);
  train->set_global_batch(shape.micro_batch * shape.accumulation);
  train->set_seed(7);
  train->set_telemetry_every_steps(0);
  auto* optimizer = spec.mutable_optimizer();
  optimizer->set_lr(1e-3);
  optimizer->set_warmup_steps(std::min<int64_t>(20, steps / 2));
  return spec;
}

JobSpec BenchTokenJob(const BenchShape& shape, int64_t steps,
                      const std::vector<std::string>& settings) {
  JobSpec spec = BenchJob(shape, steps);
  spec.mutable_data()->add_tokens("random");
  for (const std::string& setting : settings) {
    const Violations violations = SetAssignment(&spec, setting);
    if (!violations.empty()) throw Error(ViolationsToStatus(violations));
  }
  return spec;
}

JobSpec CompleteJob(JobSpec spec) {
  Violations violations = ApplyDefaults(&spec);
  if (violations.empty()) violations = ValidateJobSpec(spec);
  if (!violations.empty()) throw Error(ViolationsToStatus(violations));
  return spec;
}

std::unique_ptr<Dataset> RandomTokens(int64_t vocab, int64_t sequence_length) {
  return std::make_unique<UniformTokens>(vocab, sequence_length);
}

BenchEngine::BenchEngine(const JobSpec& spec, const BenchDevice& device,
                         std::unique_ptr<Dataset> dataset, const WrapOps& wrap)
    : spec_(spec),
      dataset_(std::move(dataset)),
      ops_(CreateOps(device.name, device.threads)),
      plan_(MakePlan(spec, 0, 1, ops_->device())),
      arena_(std::make_unique<Arena>(plan_, device.name)) {
  if (wrap) ops_ = wrap(std::move(ops_));
  ops_->SetWorkspace(arena_->Get("ops.workspace"));
  model_ =
      std::make_unique<RecordedModel>(CreateModel(spec_, ops_.get(), arena_.get()), ops_.get());
  optimizer_ = CreateOptimizer(spec_, model_.get(), ops_.get(), arena_.get());
  feeder_ = std::make_unique<BatchFeeder>(spec_, dataset_.get(), ops_.get(), arena_.get());
  model_->Initialize(spec_.train().seed());
  ops_->Synchronize();
  PrepareNext();
}

void BenchEngine::PrepareNext() {
  feeder_->Prepare(position_, 0, MicrobatchesPerStep(spec_), &next_);
}

void BenchEngine::QueueStep() {
  std::swap(now_, next_);
  position_ = now_.next;
  const Tensor inverse_count = feeder_->UploadInverseCount(now_);
  model_->ResetStep();
  for (int64_t i = 0; i < now_.microbatches; ++i) {
    model_->TrainMicrobatch(feeder_->Upload(now_, i), inverse_count, i == 0);
  }
  optimizer_->Step(++step_, model_->nonfinite(), inverse_count);
  model_->WeightsUpdated();
}

BenchEngine::StepResult BenchEngine::Step() {
  const auto start = std::chrono::steady_clock::now();
  QueueStep();
  PrepareNext();
  ops_->Synchronize();
  StepResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  float nll = 0;
  ops_->ToHost(model_->nll(), &nll);
  result.update = optimizer_->ReadState();
  if (now_.valid_targets > 0) result.loss = nll / static_cast<double>(now_.valid_targets);
  return result;
}

std::vector<BenchEngine::StepResult> BenchEngine::Steps(int64_t count) {
  StepResults queued(ops_.get(), 1);
  std::vector<StepResult> results;
  const auto take = [&] {
    const coat::StepResult step = queued.Take();
    StepResult result;
    result.seconds = step.seconds;
    result.update = step.update;
    if (step.valid_targets > 0) result.loss = step.nll / static_cast<double>(step.valid_targets);
    results.push_back(result);
  };
  for (int64_t i = 0; i < count; ++i) {
    queued.Begin();
    QueueStep();
    queued.Queue(step_, now_, model_->nll(), optimizer_.get());
    if (queued.pending() > 1) take();
    PrepareNext();
  }
  while (queued.pending() > 0) take();
  return results;
}

}  // namespace coat
