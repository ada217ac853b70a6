// One BF16 ulp on every weight: the measure of how much rounding alone may move a run.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "worker/model/model.h"
#include "worker/ops/ops.h"
#include "worker/precision/bf16.h"

namespace coat {

// Adds or subtracts, by the seed, the distance of neighbouring BF16 numbers at each FP32 master
// weight; zeros stay.
inline void PerturbWeights(uint64_t seed, Ops* ops, Model* model) {
  std::mt19937_64 random(seed);
  for (const Parameter& parameter : model->parameters()) {
    std::vector<float> weights(static_cast<size_t>(parameter.master.numel()));
    ops->ToHost(parameter.master, weights.data());
    ops->Synchronize();
    for (float& w : weights) {
      const float ulp = w == 0 ? 0.0f : std::ldexp(1.0f, std::ilogb(w) - 7);
      w += (random() & 1) != 0 ? ulp : -ulp;
    }
    ops->ToDevice(weights.data(), parameter.master);
    ops->Synchronize();
  }
  model->WeightsChanged();
}

}  // namespace coat
