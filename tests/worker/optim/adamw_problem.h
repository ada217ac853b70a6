// One stored tensor with all that an update reads and writes, in host memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "worker/ops/cpu/adamw.h"
#include "worker/ops/cpu/grad_norm.h"
#include "worker/precision/bf16.h"

namespace coat {

struct StateOption {
  const char* name;
  MomentStorage storage;
  DType m, v;
};
inline constexpr StateOption kStateOptions[] = {
    {"fp8_dre_e4m3_e4m3", MomentStorage::kFp8Dre, DType::kE4M3, DType::kE4M3},
    {"fp8_dre_e4m3_e5m2", MomentStorage::kFp8Dre, DType::kE4M3, DType::kE5M2},
    {"fp8_e4m3_e4m3", MomentStorage::kFp8, DType::kE4M3, DType::kE4M3},
    {"fp8_e4m3_e5m2", MomentStorage::kFp8, DType::kE4M3, DType::kE5M2},
    {"bf16", MomentStorage::kBf16, DType::kBF16, DType::kBF16},
    {"fp32", MomentStorage::kF32, DType::kF32, DType::kF32},
};

struct AdamWProblem {
  AdamWProblem(int64_t elements, const StateOption& option, DType param_dtype,
               DType grad_dtype = DType::kF32)
      : count(elements),
        param_type(param_dtype),
        grad_type(grad_dtype),
        param(elements * ElementBytes(param_dtype)),
        grad(elements * ElementBytes(grad_dtype)),
        m(elements * ElementBytes(option.m)),
        v(elements * ElementBytes(option.v)),
        m_amax(Groups()),
        v_amax(Groups()),
        m_k16(Groups(), 16),
        v_k16(Groups(), 16),
        copy(elements) {
    args.storage = option.storage;
    args.state = Tensor(&state, DType::kU8, {static_cast<int64_t>(sizeof(state))});
    args.weight_decay = 0;
    state.apply = 1;
    m_type = option.m;
    v_type = option.v;
  }

  int64_t Groups() const { return (count + 127) / 128; }

  AdamWTensor View() {
    AdamWTensor tensor;
    tensor.param = Tensor(param.data(), param_type, {count});
    tensor.grad = Tensor(grad.data(), grad_type, {count});
    tensor.m.values = Tensor(m.data(), m_type, {count});
    tensor.v.values = Tensor(v.data(), v_type, {count});
    if (args.storage == MomentStorage::kFp8Dre || args.storage == MomentStorage::kFp8) {
      tensor.m.amax = Tensor(m_amax.data(), DType::kF32, {Groups()});
      tensor.v.amax = Tensor(v_amax.data(), DType::kF32, {Groups()});
    }
    if (args.storage == MomentStorage::kFp8Dre) {
      tensor.m.k16 = Tensor(m_k16.data(), DType::kU16, {Groups()});
      tensor.v.k16 = Tensor(v_k16.data(), DType::kU16, {Groups()});
    }
    tensor.copy = Tensor(copy.data(), DType::kBF16, {count});
    tensor.amax = Tensor(&amax, DType::kF32, {1});
    tensor.id = id;
    return tensor;
  }

  void Step(ThreadPool& pool) {
    const AdamWTensor tensor = View();
    args.tensors = std::span(&tensor, 1);
    CpuAdamW(args, pool);
  }

  static float Get(const std::vector<char>& data, DType type, int64_t i) {
    if (type == DType::kF32) return reinterpret_cast<const float*>(data.data())[i];
    return FloatFromBf16(reinterpret_cast<const uint16_t*>(data.data())[i]);
  }
  static void Set(std::vector<char>* data, DType type, int64_t i, float x) {
    if (type == DType::kF32) {
      reinterpret_cast<float*>(data->data())[i] = x;
    } else {
      reinterpret_cast<uint16_t*>(data->data())[i] = Bf16FromFloat(x);
    }
  }
  float Param(int64_t i) const { return Get(param, param_type, i); }
  void SetParam(int64_t i, float x) { Set(&param, param_type, i, x); }
  float Grad(int64_t i) const { return Get(grad, grad_type, i); }
  void SetGrad(int64_t i, float x) { Set(&grad, grad_type, i, x); }

  void RandomParams(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) SetParam(i, 0.02f * normal(random));
  }
  void RandomGrads(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) SetGrad(i, 1e-3f * normal(random));
  }

  // Every byte an update may change.
  std::string Bytes() const {
    std::string out;
    const auto append = [&out](const auto& x) {
      out.append(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(x[0]));
    };
    append(param);
    append(m);
    append(v);
    append(m_amax);
    append(v_amax);
    append(m_k16);
    append(v_k16);
    append(copy);
    out.append(reinterpret_cast<const char*>(&amax), sizeof(amax));
    out.append(reinterpret_cast<const char*>(&state), sizeof(state));
    return out;
  }

  int64_t count;
  DType param_type, grad_type, m_type = DType::kF32, v_type = DType::kF32;
  std::vector<char> param, grad, m, v;
  std::vector<float> m_amax, v_amax;
  std::vector<uint16_t> m_k16, v_k16, copy;
  float amax = 0;
  uint32_t id = 0;
  StepState state;
  AdamWArgs args;
};

}  // namespace coat
