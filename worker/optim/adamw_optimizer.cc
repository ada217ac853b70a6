#include <algorithm>
#include <bit>

#include "configs/base/error.h"
#include "worker/memory/arena.h"
#include "worker/optim/layout.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

constexpr int kKBuckets = 11;  // 1/16 to 64 in powers of two

void Fill(Ops* ops, const Tensor& x, uint32_t bits) {
  const int64_t count = x.numel();
  if (ElementBytes(x.dtype) == 2) {
    const std::vector<uint16_t> host(count, static_cast<uint16_t>(bits));
    ops->ToDevice(host.data(), x);
    ops->Synchronize();
    return;
  }
  const std::vector<uint32_t> host(count, bits);
  ops->ToDevice(host.data(), x);
  ops->Synchronize();
}

class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(const coatrack::v1::JobSpec& spec, Model* model, Ops* ops, Arena* arena);

  void Step(int64_t step, const Tensor& nonfinite, const Tensor& inverse_count) override;
  StepState ReadState() override;
  void CopyState(StepState* host) override { ops_->ToHost(step_state_, host); }
  void SetAppliedSteps(int32_t t) override;
  std::vector<StateTensor> StateTensors() override { return state_tensors_; }
  KHistogram ExpansionK(bool second_moment) override;
  void SetTelemetry(bool on) override { telemetry_ = on; }
  MomentHealth moment_health() const override { return health_; }
  std::string StateName() const override { return OptimizerStateName(formats_); }

 private:
  Moment FindMoment(const std::string& prefix);
  void SampleHealth();
  Tensor FindState(const std::string& name);

  Ops* ops_;
  Arena* arena_;
  OptimizerFormats formats_;
  coatrack::v1::OptimizerSpec schedule_;
  int64_t steps_;
  AdamWArgs update_;
  Tensor step_state_;
  std::vector<AdamWTensor> tensors_;
  std::vector<Tensor> grads_;
  std::vector<StateTensor> state_tensors_;
  bool telemetry_ = false;
  MomentHealth health_;
};

AdamWOptimizer::AdamWOptimizer(const coatrack::v1::JobSpec& spec, Model* model, Ops* ops,
                               Arena* arena)
    : ops_(ops),
      arena_(arena),
      formats_(ResolveOptimizerFormats(spec)),
      schedule_(spec.optimizer()),
      steps_(spec.train().steps()),
      step_state_(arena->Get(kStepStateName)) {
  for (const Parameter& parameter : model->parameters()) {
    AdamWTensor tensor;
    tensor.param = parameter.master;
    tensor.grad = parameter.grad;
    tensor.m = FindMoment(parameter.name + ".m");
    tensor.v = FindMoment(parameter.name + ".v");
    tensor.copy = parameter.copy;
    tensor.amax = parameter.amax;
    tensor.decay = parameter.decay;
    tensor.id = parameter.id;
    tensors_.push_back(tensor);
    grads_.push_back(parameter.grad);
  }
  update_.tensors = tensors_;
  update_.storage = formats_.storage;
  update_.beta1 = static_cast<float>(schedule_.beta1());
  update_.beta2 = static_cast<float>(schedule_.beta2());
  update_.eps = static_cast<float>(schedule_.eps());
  update_.weight_decay = static_cast<float>(schedule_.weight_decay());
  update_.seed = spec.train().seed();
  update_.state = step_state_;
  SetAppliedSteps(0);
}

Tensor AdamWOptimizer::FindState(const std::string& name) {
  const Tensor tensor = arena_->Get(name);
  state_tensors_.push_back({name, tensor});
  return tensor;
}

Moment AdamWOptimizer::FindMoment(const std::string& prefix) {
  Moment moment;
  moment.values = FindState(prefix + ".values");
  if (formats_.storage == MomentStorage::kBf16 || formats_.storage == MomentStorage::kF32) {
    return moment;
  }
  moment.amax = FindState(prefix + ".amax");
  if (formats_.storage == MomentStorage::kFp8) {
    Fill(ops_, moment.amax, std::bit_cast<uint32_t>(1.0f));
  } else {
    moment.k16 = FindState(prefix + ".k16");
    Fill(ops_, moment.k16, 16);
  }
  return moment;
}

void AdamWOptimizer::Step(int64_t step, const Tensor& nonfinite, const Tensor& inverse_count) {
  GradNormArgs norm;
  norm.grads = grads_;
  norm.nonfinite = nonfinite;
  norm.inverse_count = inverse_count;
  norm.clip_norm = static_cast<float>(schedule_.clip_norm());
  norm.state = step_state_;
  ops_->GradNorm(norm);
  update_.lr = static_cast<float>(LearningRate(schedule_, step, steps_));
  if (telemetry_) SampleHealth();
  ops_->AdamW(update_);
}

void AdamWOptimizer::SampleHealth() {
  const StepState state = ReadState();
  if (state.apply == 0) return;
  const AdamWCoefficients coefficients =
      MakeAdamWCoefficients(update_.lr, update_.beta1, update_.beta2, update_.eps,
                            update_.weight_decay, state.clip_factor, state.t + 1);
  health_ = SampleMomentHealth(ops_, formats_, tensors_, coefficients);
}

StepState AdamWOptimizer::ReadState() {
  StepState state;
  CopyState(&state);
  ops_->Synchronize();
  return state;
}

void AdamWOptimizer::SetAppliedSteps(int32_t t) {
  StepState state;
  state.t = t;
  ops_->ToDevice(&state, step_state_);
  ops_->Synchronize();
}

KHistogram AdamWOptimizer::ExpansionK(bool second_moment) {
  KHistogram histogram;
  if (formats_.storage != MomentStorage::kFp8Dre) return histogram;
  for (int i = 0; i < kKBuckets; ++i) histogram.bounds.push_back((1 << i) / 16.0);
  histogram.counts.assign(kKBuckets + 1, 0);
  std::vector<uint16_t> k16;
  std::vector<float> amax;
  for (const AdamWTensor& tensor : tensors_) {
    const Moment& moment = second_moment ? tensor.v : tensor.m;
    k16.resize(moment.k16.numel());
    amax.resize(moment.amax.numel());
    ops_->ToHost(moment.k16, k16.data());
    ops_->ToHost(moment.amax, amax.data());
    ops_->Synchronize();
    for (size_t group = 0; group < k16.size(); ++group) {
      if (amax[group] == 0) continue;
      // The first bound that is not below k: ceil(log2 k16).
      const uint32_t k = std::max<uint32_t>(k16[group], 1);
      histogram.counts[std::min<size_t>(std::bit_width(k - 1), kKBuckets)] += 1;
    }
  }
  return histogram;
}

}  // namespace

std::unique_ptr<Optimizer> CreateOptimizer(const coatrack::v1::JobSpec& spec, Model* model,
                                           Ops* ops, Arena* arena) {
  return std::make_unique<AdamWOptimizer>(spec, model, ops, arena);
}

}  // namespace coat
