// NUMERICS 3, rows 1 to 9, of one block.
#include "worker/model/block.h"

namespace coat {

Tensor Block::Forward(const Tensor& residual, bool first) {
  const Tensor branch = first ? Tensor() : shared_.branch;
  const Tensor entered =
      AddNorm(attention_norm_, weights().attention_norm, Linear::kQkv, residual, branch);
  ForwardGemm(Linear::kQkv,
              NormOutput(attention_norm_, weights().attention_norm, Linear::kQkv,
                         shared_.attention_norm_codes),
              qkv_);
  ops_.Rope({shared_.shape.attention(), qkv_, shared_.cos, shared_.sin, false, {}});
  ops_.Attention({shared_.shape.attention(), qkv_, o_, lse_});
  ForwardGemm(Linear::kOutput, AttentionOutput(), shared_.branch);

  const Tensor middle =
      AddNorm(mlp_norm_, weights().mlp_norm, Linear::kGateUp, entered, shared_.branch);
  ForwardGemm(Linear::kGateUp,
              NormOutput(mlp_norm_, weights().mlp_norm, Linear::kGateUp, shared_.mlp_norm_codes),
              gate_up_);
  ForwardGemm(Linear::kDown, Product(), shared_.branch);
  return middle;
}

Tensor Block::AddNorm(const SavedNorm& norm, const Gain& gain, Linear consumer,
                      const Tensor& residual, const Tensor& branch) {
  const bool fp8 = recipe_.fp8_gemm();
  const Tensor sum = norm.x.empty() ? shared_.residual : norm.x;
  AddNormArgs args;
  args.residual = residual;
  args.branch = branch;
  if (!branch.empty()) args.residual_out = sum;
  args.q8 = norm.q8;
  args.gamma = gain.f32;
  args.rstd = norm.rstd;
  if (fp8) args.amax = shared_.partials;
  args.eps = shared_.shape.norm_eps;
  ops_.AddNorm(args);
  if (fp8) {
    ops_.AmaxToScale({shared_.partials, DType::kE4M3, scale(consumer), shared_.nonfinite});
  }
  if (!norm.q8.empty()) shared_.telemetry->Groups(sum, 1);
  return sum;
}

GemmOperand Block::NormOutput(const SavedNorm& norm, const Gain& gain, Linear consumer,
                              const Tensor& codes) {
  NormApplyArgs args;
  args.x = Input(norm);
  args.rstd = norm.rstd;
  args.gamma = gain.f32;
  if (!recipe_.fp8_gemm()) {
    args.out = norm.out;
    ops_.NormApply(args);
    return {norm.out, {}};
  }
  args.scale = scale(consumer);
  args.out = codes;
  args.out_transposed = norm.out_transposed;
  ops_.NormApply(args);
  return {codes, scale(consumer)};
}

GemmOperand Block::AttentionOutput() {
  if (!recipe_.fp8_gemm()) return {o_, {}};
  ops_.Amax({o_, shared_.partials});
  ops_.AmaxToScale({shared_.partials, DType::kE4M3, scale(Linear::kOutput), shared_.nonfinite});
  ops_.Quantize({o_, scale(Linear::kOutput), shared_.o_codes, {}});
  shared_.telemetry->Activation(o_, scale(Linear::kOutput));
  return {shared_.o_codes, scale(Linear::kOutput)};
}

GemmOperand Block::Product() {
  SwigluArgs args;
  args.gate_up = GateUp();
  if (!recipe_.fp8_gemm()) {
    args.out = product_;
    ops_.Swiglu(args);
    return {product_, {}};
  }
  ops_.GateUpQuantize({gate_up_, gate_up_q8_, shared_.partials});
  if (!gate_up_q8_.empty()) shared_.telemetry->Groups(gate_up_, 2);
  ops_.AmaxToScale({shared_.partials, DType::kE4M3, scale(Linear::kDown), shared_.nonfinite});
  args.scale = scale(Linear::kDown);
  args.out = shared_.product_codes;
  args.out_transposed = product_transposed_;
  ops_.Swiglu(args);
  return {shared_.product_codes, scale(Linear::kDown)};
}

void Block::ForwardGemm(Linear linear, const GemmOperand& input, const Tensor& out) {
  const GemmOperand weight = shared_.weights->Forward(layer_, linear);
  GemmArgs args;
  args.a = input.values;
  args.a_scale = input.scale;
  args.b = weight.values;
  args.b_scale = weight.scale;
  args.c = out;
  args.fast_accumulation = recipe_.fast_forward;
  ops_.Gemm(args);
}

}  // namespace coat
