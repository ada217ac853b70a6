// The backward of one block (NUMERICS 3): every GEMM twice, operands in FP8 where the recipe says
// so, saved scales reused, non-linear operators recomputed from what they read.
#include "configs/base/error.h"
#include "worker/model/block.h"

namespace coat {

void Block::Backward() {
  BlockShared& s = shared_;
  // Whoever writes the gradient of a GEMM's output leaves the maxima of its rows in `partials`.
  const Tensor amax = recipe_.fp8_gemm() ? s.partials : Tensor();
  LinearBackward(Linear::kDown, s.dresidual, s.dproduct);
  ops_.SwigluBackward({GateUp(), s.dproduct, s.dgate_up, amax});
  LinearBackward(Linear::kGateUp, s.dgate_up, s.dmlp_norm);
  NormBackward(mlp_norm_, weights().mlp_norm, s.dmlp_norm);

  LinearBackward(Linear::kOutput, s.dresidual, s.do_);
  ops_.AttentionBackward({s.shape.attention(), qkv_, o_, lse_, s.do_, s.dqkv, s.deterministic});
  ops_.Rope({s.shape.attention(), s.dqkv, s.cos, s.sin, true, amax});
  LinearBackward(Linear::kQkv, s.dqkv, s.dattention_norm);
  NormBackward(attention_norm_, weights().attention_norm, s.dattention_norm);
}

void Block::LinearBackward(Linear linear, const Tensor& dout, const Tensor& din) {
  const LinearWeight& weight = shared_.weights->linear(layer_, linear);
  GemmArgs dgrad;
  GemmArgs wgrad;
  dgrad.c = din;
  wgrad.c = weight.gradient;
  wgrad.accumulate = !shared_.first_of_step;
  if (!recipe_.fp8_gemm()) {
    dgrad.a = dout;
    dgrad.b = weight.bf16;
    dgrad.b_transposed = true;
    wgrad.a = dout;
    wgrad.a_transposed = true;
    wgrad.b = LinearInput(linear).values;
    wgrad.b_transposed = true;
    ops_.Gemm(dgrad);
    ops_.Gemm(wgrad);
    return;
  }
  const Tensor& gradient_scale = gradient_scales_[static_cast<size_t>(linear)];
  const auto& transients = shared_.linear[static_cast<size_t>(linear)];
  ops_.AmaxToScale({shared_.partials, recipe_.gradient, gradient_scale, shared_.nonfinite});
  ops_.Quantize({dout, gradient_scale, transients.codes, transients.codes_transposed});
  shared_.telemetry->Gradient(dout, gradient_scale);

  const GemmOperand transposed_weight = shared_.weights->Transposed(layer_, linear);
  dgrad.a = transients.codes;
  dgrad.a_scale = gradient_scale;
  dgrad.b = transposed_weight.values;
  dgrad.b_scale = transposed_weight.scale;
  ops_.Gemm(dgrad);

  const GemmOperand input = LinearInput(linear);
  wgrad.a = transients.codes_transposed;
  wgrad.a_scale = gradient_scale;
  wgrad.b = input.values;
  wgrad.b_scale = input.scale;
  ops_.Gemm(wgrad);
}

// The forward's input of a GEMM as its weight gradient reads it: BF16 (N, in), or E4M3 (in, N).
GemmOperand Block::LinearInput(Linear linear) {
  const bool fp8 = recipe_.fp8_gemm();
  const Tensor& again = shared_.linear[static_cast<size_t>(linear)].input_transposed;
  switch (linear) {
    case Linear::kQkv: return NormInput(attention_norm_, weights().attention_norm, linear);
    case Linear::kGateUp: return NormInput(mlp_norm_, weights().mlp_norm, linear);
    case Linear::kOutput:
      if (!fp8) return {o_, {}};
      ops_.Quantize({o_, scale(linear), {}, again});
      return {again, scale(linear)};
    case Linear::kDown:
      if (!fp8) return {product_, {}};
      if (!product_transposed_.empty()) return {product_transposed_, scale(linear)};
      ops_.Swiglu({GateUp(), scale(linear), {}, again});
      return {again, scale(linear)};
  }
  throw Error(Code::kInternal, "block: unknown weight");
}

GemmOperand Block::NormInput(const SavedNorm& norm, const Gain& gain, Linear consumer) {
  if (!recipe_.fp8_gemm()) return {norm.out, {}};
  if (!norm.out_transposed.empty()) return {norm.out_transposed, scale(consumer)};
  const Tensor& again = shared_.linear[static_cast<size_t>(consumer)].input_transposed;
  ops_.NormApply({Input(norm), norm.rstd, gain.f32, scale(consumer), {}, again});
  return {again, scale(consumer)};
}

void Block::NormBackward(const SavedNorm& norm, const Gain& gain, const Tensor& dy) {
  ops_.NormBackward({dy, Input(norm), norm.rstd, gain.f32, shared_.dresidual, shared_.dresidual,
                     gain.gradient, shared_.partials});
}

}  // namespace coat
