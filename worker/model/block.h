// One decoder block (NUMERICS 3, rows 1 to 9) and its backward, in the recipe of its layer.
#pragma once

#include <array>
#include <cstdint>

#include "worker/memory/arena.h"
#include "worker/model/declare.h"
#include "worker/model/shape.h"
#include "worker/model/telemetry.h"
#include "worker/model/weights.h"
#include "worker/ops/ops.h"
#include "worker/precision/recipe.h"

namespace coat {

// What all blocks share. The transients' names are those of declare.cc.
struct BlockShared {
  BlockShared(Ops* ops, const Arena& arena, const ModelShape& shape, bool deterministic,
              Weights* weights, Telemetry* telemetry);

  Ops* ops;
  const Arena& arena;
  ModelShape shape;
  bool deterministic;
  Weights* weights;
  Telemetry* telemetry;
  Tensor cos, sin, nonfinite;
  bool first_of_step = false;  // weight gradients are written, not added to
  Tensor partials;             // F32 (N): a maximum a row, consumed by the next AmaxToScale
  // Forward.
  Tensor residual, branch, gate_up;                                     // BF16
  Tensor attention_norm_codes, mlp_norm_codes, o_codes, product_codes;  // E4M3
  // Backward; dresidual carries the gradient of the residual from block to block.
  Tensor dresidual, dproduct, dgate_up, dmlp_norm, do_, dqkv, dattention_norm;  // BF16
  struct LinearTransients {
    Tensor codes, codes_transposed;  // E5M2 (N, out), (out, N): gradient of the GEMM's output
    Tensor input_transposed;         // E4M3 (in, N): input of the GEMM, where it was not saved
  };
  std::array<LinearTransients, kLinears> linear;
};

// A norm and what it keeps; exactly one of x and q8 is set.
struct SavedNorm {
  Tensor x;
  GroupQuantized q8;
  Tensor rstd;
  Tensor out;             // BF16 (N, d), recipe bf16
  Tensor out_transposed;  // E4M3 (d, N), where saved
};

class Block {
 public:
  Block(BlockShared* shared, int64_t layer, const LayerRecipe& recipe);

  // Where this block wants the residual that enters it. The embedding writes it there for the
  // first block; the others add the branch of the block before and store the sum there.
  const Tensor& input() const;

  // Reads the residual, and the branch of the block before unless `first`; leaves its own last
  // branch in shared.branch. Returns the residual, that branch not yet added.
  Tensor Forward(const Tensor& residual, bool first);

  // Turns shared.dresidual from the gradient of the residual behind the block into that before it,
  // and adds to the gradients of the block's weights.
  void Backward();

 private:
  // Forward.
  Tensor AddNorm(const SavedNorm& norm, const Gain& gain, Linear consumer, const Tensor& residual,
                 const Tensor& branch);
  GemmOperand NormOutput(const SavedNorm& norm, const Gain& gain, Linear consumer,
                         const Tensor& codes);
  GemmOperand AttentionOutput();
  GemmOperand Product();
  void ForwardGemm(Linear linear, const GemmOperand& input, const Tensor& out);

  // Backward. `partials` hold the maxima of dout's rows.
  void LinearBackward(Linear linear, const Tensor& dout, const Tensor& din);
  GemmOperand LinearInput(Linear linear);
  GemmOperand NormInput(const SavedNorm& norm, const Gain& gain, Linear consumer);
  void NormBackward(const SavedNorm& norm, const Gain& gain, const Tensor& dy);

  static Activation Input(const SavedNorm& norm);
  Activation GateUp() const;
  const Tensor& scale(Linear linear) const { return scales_[static_cast<size_t>(linear)]; }
  const LayerWeights& weights() const { return shared_.weights->layer(layer_); }

  BlockShared& shared_;
  Ops& ops_;
  int64_t layer_;
  LayerRecipe recipe_;
  SavedNorm attention_norm_, mlp_norm_;
  Tensor qkv_, o_, lse_;
  Tensor gate_up_;  // BF16 (N, 2 f): saved, or the shared transient
  GroupQuantized gate_up_q8_;
  Tensor product_, product_transposed_;
  // F32 (1) of each GEMM: its input's and its output gradient's.
  std::array<Tensor, kLinears> scales_, gradient_scales_;
};

}  // namespace coat
