// What a sampled microbatch tells about its FP8 operands (NUMERICS 7).
#pragma once

#include <cstdint>
#include <vector>

#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/model/shape.h"
#include "worker/ops/ops.h"
#include "worker/precision/recipe.h"

namespace coat {

// Does nothing outside a sampled microbatch. Thread-compatible.
class Telemetry {
 public:
  Telemetry(Ops* ops, const Arena& arena, const ModelShape& shape,
            const std::vector<LayerRecipe>& recipes);

  void Switch(bool on);  // on: zeroes the counters
  // Begins a microbatch; it is sampled when telemetry is on and `sample` is set.
  void Begin(bool sample) { sampling_ = on_ && sample; }
  bool sampling() const { return sampling_; }

  // Values before they are quantized, and the scale they are quantized with.
  void Activation(const Tensor& x, const Tensor& scale);
  void Weight(const Tensor& x, const Tensor& scale);
  void Gradient(const Tensor& x, const Tensor& scale);
  void Groups(const Tensor& x, int segments);

  // Writes smallest and largest scale of each kind. Waits for the device when sampling. Group
  // scales are those of the first and the last layer that has them.
  void End();

  Tensor health(Operand operand) const;  // F32 (8)

 private:
  void Measure(Operand operand, const Tensor& x, const Tensor& scale, DType format, int segments);

  Ops* ops_;
  Tensor health_;                             // F32 (kOperands, 8)
  Tensor activations_, weights_, gradients_;  // F32 (layers, 4): scales
  std::vector<Tensor> group_scales_;          // BF16
  bool on_ = false;
  bool sampling_ = false;
};

}  // namespace coat
