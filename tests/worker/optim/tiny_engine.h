// One rank's engine on the CPU with a small model; every step sees the same tokens.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "configs/base/error.h"
#include "configs/spec/defaults.h"
#include "worker/memory/arena.h"
#include "worker/memory/plan.h"
#include "worker/optim/optimizer.h"

namespace coat {

inline coatrack::v1::JobSpec TinyJob(coatrack::v1::OptimizerState state,
                                     coatrack::v1::MasterWeights master) {
  coatrack::v1::JobSpec spec;
  spec.set_name("optimizer");
  auto* model = spec.mutable_model();
  model->set_preset("llama-tiny");
  model->set_hidden_size(48);
  model->set_layers(1);
  model->set_heads(2);
  model->set_intermediate_size(80);
  spec.mutable_data()->add_tokens("train.bin");
  auto* train = spec.mutable_train();
  train->set_steps(20);
  train->set_sequence_length(16);
  train->set_global_batch(2);
  train->set_micro_batch(2);
  train->set_seed(11);
  spec.mutable_optimizer()->set_lr(1e-2);
  spec.mutable_optimizer()->set_warmup_steps(4);
  spec.mutable_optimizer()->set_weight_decay(0);
  spec.mutable_precision()->set_optimizer_state(state);
  spec.mutable_precision()->set_master(master);
  const Status status = ViolationsToStatus(ApplyDefaults(&spec));
  if (!status.ok()) throw Error(status);
  return spec;
}

class Engine {
 public:
  explicit Engine(const coatrack::v1::JobSpec& spec)
      : ops_(CreateOps("cpu", 1)),
        arena_(MakePlan(spec, 0, 1, DeviceType::kCpu), "cpu"),
        model_(CreateModel(spec, ops_.get(), &arena_)),
        optimizer_(CreateOptimizer(spec, model_.get(), ops_.get(), &arena_)),
        batch_(BatchBuffers(arena_)),
        inverse_count_(arena_.Get(kBatchInverseCount)) {
    model_->Initialize(spec.train().seed());
    std::vector<int32_t> tokens(batch_.tokens.numel()), targets(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 90);
    for (size_t i = 0; i < tokens.size(); ++i) targets[i] = tokens[(i + 1) % tokens.size()];
    ops_->ToDevice(tokens.data(), batch_.tokens);
    ops_->ToDevice(targets.data(), batch_.targets);
    ops_->ToDevice(TokenOrder(tokens).data(), batch_.order);
    const float inverse = 1.0f / static_cast<float>(tokens.size());
    ops_->ToDevice(&inverse, inverse_count_);
    ops_->Synchronize();
    inverse_ = inverse;
  }

  // Mean loss before the update. `poison` is put into one gradient.
  double Step(int64_t step, float poison = 0) {
    model_->ResetStep();
    model_->TrainMicrobatch(batch_, inverse_count_, true);
    if (poison != 0) model_->parameters()[1].grad.as<float>()[3] = poison;
    optimizer_->Step(step, model_->nonfinite(), inverse_count_);
    model_->WeightsUpdated();
    return *model_->nll().as<const float>() * inverse_;
  }

  // Masters and optimizer state.
  std::string Bytes() {
    std::string out;
    for (const Tensor& tensor : Stored()) out.append(tensor.as<const char>(), tensor.bytes());
    return out;
  }
  void Load(const std::string& bytes, int32_t t) {
    size_t at = 0;
    for (const Tensor& tensor : Stored()) {
      std::memcpy(tensor.data, bytes.data() + at, tensor.bytes());
      at += tensor.bytes();
    }
    optimizer_->SetAppliedSteps(t);
    model_->WeightsChanged();
  }

  Optimizer& optimizer() { return *optimizer_; }
  Model& model() { return *model_; }

 private:
  std::vector<Tensor> Stored() {
    std::vector<Tensor> out;
    for (const Parameter& parameter : model_->parameters()) out.push_back(parameter.master);
    for (const StateTensor& state : optimizer_->StateTensors()) out.push_back(state.tensor);
    return out;
  }

  std::unique_ptr<Ops> ops_;
  Arena arena_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  Batch batch_;
  Tensor inverse_count_;
  float inverse_ = 0;
};

}  // namespace coat
