// The weights as operators read them: FP32 gains, BF16 copies, FP8 codes quantized once an update
// (resident) or each time a layer needs them (per_layer).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/model/shape.h"
#include "worker/ops/ops.h"

namespace coat {

// A factor of a GEMM; `scale` is empty unless `values` is FP8.
struct GemmOperand {
  Tensor values;
  Tensor scale;
};

struct Gain {
  Tensor master;    // F32 or BF16 (d)
  Tensor f32;       // F32 (d): the master, or its copy
  Tensor gradient;  // F32 (d)
};

struct LinearWeight {
  Tensor master;    // (out, in)
  Tensor gradient;  // F32 or BF16 (out, in)
  // BF16 GEMMs: the operand (out, in), which is the master itself where that is BF16.
  Tensor bf16;
  // FP8 GEMMs.
  Tensor amax, scale;              // F32 (1)
  Tensor codes, codes_transposed;  // (out, in), (in, out); resident only
  bool fp8 = false;
};

struct LayerWeights {
  Gain attention_norm, mlp_norm;
  std::array<LinearWeight, kLinears> linear;
};

// Thread-compatible.
class Weights {
 public:
  Weights(const coatrack::v1::JobSpec& spec, Ops* ops, const Arena& arena, Tensor nonfinite);

  // Recomputes everything from the masters.
  void Reload();
  // After an update that wrote `amax` and the BF16 copies.
  void Refresh();

  // Operand b of the forward GEMM: (out, in). A per_layer operand is valid until the next call.
  GemmOperand Forward(int64_t layer, Linear linear);
  // Operand b of the FP8 gradient GEMM: (in, out). BF16 GEMMs read `bf16` transposed instead.
  GemmOperand Transposed(int64_t layer, Linear linear);

  const LayerWeights& layer(int64_t i) const { return layers_[static_cast<size_t>(i)]; }
  const LinearWeight& linear(int64_t i, Linear which) const {
    return layer(i).linear[static_cast<size_t>(which)];
  }
  const Gain& final_norm() const { return final_norm_; }
  const Tensor& embedding() const { return embedding_; }  // master (V, d)
  const Tensor& embedding_gradient() const { return embedding_gradient_; }
  const Tensor& head() const { return head_; }  // BF16 (V, d)
  const Tensor& head_gradient() const { return head_gradient_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  void Bind(const coatrack::v1::JobSpec& spec, const ModelShape& shape, const Arena& arena);
  Tensor Workspace(int64_t rows, int64_t cols) const;
  void CastGain(const Gain& gain);

  Ops* ops_;
  Tensor nonfinite_, partials_, codes_;
  std::vector<Parameter> parameters_;
  std::vector<LayerWeights> layers_;
  Gain final_norm_;
  Tensor embedding_, embedding_gradient_, head_, head_gradient_;
};

}  // namespace coat
