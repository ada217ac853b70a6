// A small job with everything a microbatch needs, on the CPU or on a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "configs/base/error.h"
#include "configs/spec/defaults.h"
#include "worker/memory/arena.h"
#include "worker/memory/plan.h"
#include "worker/model/model.h"
#include "worker/ops/ops.h"
#include "worker/precision/bf16.h"

namespace coat {

// Defaults are not applied yet, so that a test may change the dimensions.
inline coatrack::v1::JobSpec SmallJob() {
  coatrack::v1::JobSpec spec;
  spec.set_api_version("coatrack/v1");
  spec.set_name("small");
  auto* model = spec.mutable_model();
  model->set_family(coatrack::v1::MODEL_FAMILY_LLAMA);
  model->set_hidden_size(32);
  model->set_layers(2);
  model->set_heads(4);
  model->set_kv_heads(2);
  model->set_intermediate_size(48);
  model->set_vocab_size(61);
  model->set_init_std(0.2);
  spec.mutable_data()->add_tokens("train.bin");
  auto* train = spec.mutable_train();
  train->set_steps(10);
  train->set_sequence_length(16);
  train->set_global_batch(2);
  train->set_micro_batch(2);
  train->set_seed(7);
  spec.mutable_optimizer()->set_lr(1e-2);
  return spec;
}

inline coatrack::v1::JobSpec WithDefaults(coatrack::v1::JobSpec spec) {
  const Status status = ViolationsToStatus(ApplyDefaults(&spec));
  if (!status.ok()) throw Error(status);
  return spec;
}

// Of tensors in host memory.
inline std::vector<float> Read(const Tensor& x) {
  std::vector<float> values(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = x.dtype == DType::kBF16 ? FloatFromBf16(x.as<uint16_t>()[i]) : x.as<float>()[i];
  }
  return values;
}

inline std::vector<uint8_t> Bytes(const Tensor& x) {
  const auto* first = x.as<uint8_t>();
  return std::vector<uint8_t>(first, first + x.bytes());
}

struct HostBatch {
  std::vector<int32_t> tokens, targets;
};

inline HostBatch RandomBatch(int64_t tokens, int64_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> pick(0, static_cast<int32_t>(vocab) - 1);
  HostBatch batch;
  for (int64_t i = 0; i < tokens; ++i) {
    batch.tokens.push_back(pick(random));
    batch.targets.push_back(pick(random));
  }
  return batch;
}

inline int64_t ValidTargets(const HostBatch& batch) {
  int64_t valid = 0;
  for (const int32_t target : batch.targets) valid += target >= 0;
  return valid;
}

struct Rig {
  // `edit` may change the plan before it is reserved.
  explicit Rig(const coatrack::v1::JobSpec& job,
               const std::function<void(MemoryPlan*)>& edit = nullptr,
               const std::string& device = "cpu")
      : spec(WithDefaults(job)), ops(CreateOps(device, 2)) {
    plan = MakePlan(spec, 0, 1, ops->device());
    if (edit) edit(&plan);
    arena = std::make_unique<Arena>(plan, device);
    model = CreateModel(spec, ops.get(), arena.get());
    model->Initialize(spec.train().seed());
    model->ResetStep();
  }

  int64_t tokens() const { return spec.train().micro_batch() * spec.train().sequence_length(); }
  HostBatch Random(uint32_t seed) const {
    return RandomBatch(tokens(), spec.model().vocab_size(), seed);
  }

  void Fill(const HostBatch& batch, int64_t valid) {
    const std::vector<int32_t> order = TokenOrder(batch.tokens);
    const float inverse = valid == 0 ? 0.0f : 1.0f / static_cast<float>(valid);
    const Batch buffers = BatchBuffers(*arena);
    ops->ToDevice(batch.tokens.data(), buffers.tokens);
    ops->ToDevice(batch.targets.data(), buffers.targets);
    ops->ToDevice(order.data(), buffers.order);
    ops->ToDevice(&inverse, arena->Get(kBatchInverseCount));
    ops->Synchronize();
  }
  void Train(const HostBatch& batch, int64_t valid, bool first = true) {
    Fill(batch, valid);
    model->TrainMicrobatch(BatchBuffers(*arena), arena->Get(kBatchInverseCount), first);
    ops->Synchronize();
  }
  // One step of one microbatch, gradients from zero.
  void Step(const HostBatch& batch) {
    model->ResetStep();
    Train(batch, ValidTargets(batch));
  }
  double Evaluate(const HostBatch& batch) {
    Fill(batch, ValidTargets(batch));
    model->ResetStep();
    model->EvaluateMicrobatch(BatchBuffers(*arena));
    return Nll();
  }

  // A copy of a device's tensor.
  std::vector<uint8_t> FetchBytes(const Tensor& x) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(x.bytes()));
    ops->ToHost(x, bytes.data());
    ops->Synchronize();
    return bytes;
  }
  std::vector<float> Fetch(const Tensor& x) const {
    std::vector<uint8_t> bytes = FetchBytes(x);
    return Read(Tensor(bytes.data(), x.dtype, {x.numel()}));
  }

  double Nll() const { return Fetch(model->nll())[0]; }
  bool Finite() const { return FetchBytes(model->nonfinite()) == std::vector<uint8_t>(4, 0); }
  const Parameter& Find(const std::string& name) const {
    for (const Parameter& parameter : model->parameters()) {
      if (parameter.name == name) return parameter;
    }
    throw Error(Code::kNotFound, "no parameter " + name);
  }
  std::vector<uint8_t> GradientBytes() const {
    std::vector<uint8_t> all;
    for (const Parameter& parameter : model->parameters()) {
      const std::vector<uint8_t> bytes = FetchBytes(parameter.grad);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  std::vector<float> Gradients() const {
    std::vector<float> all;
    for (const Parameter& parameter : model->parameters()) {
      const std::vector<float> values = Fetch(parameter.grad);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  // Masters of `other`, bit by bit; what is kept of them is recomputed.
  void CopyMasters(const Rig& other) {
    for (size_t i = 0; i < model->parameters().size(); ++i) {
      const std::vector<uint8_t> bytes = other.FetchBytes(other.model->parameters()[i].master);
      ops->ToDevice(bytes.data(), model->parameters()[i].master);
      ops->Synchronize();
    }
    model->WeightsChanged();
  }

  coatrack::v1::JobSpec spec;
  std::unique_ptr<Ops> ops;
  MemoryPlan plan;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Model> model;
};

inline double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// ||a - b|| / ||b||
inline double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  }
  return std::sqrt(sum) / Norm(b);
}

}  // namespace coat
