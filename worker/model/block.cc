#include "worker/model/block.h"

#include <string>

namespace coat {
namespace {

SavedNorm BindNorm(const Arena& arena, const std::string& name) {
  SavedNorm norm;
  norm.x = arena.Find(name + ".x");
  norm.q8 = {arena.Find(name + ".q8.codes"), arena.Find(name + ".q8.scales"), 1};
  norm.rstd = arena.Get(name + ".rstd");
  norm.out = arena.Find(name + ".out");
  norm.out_transposed = arena.Find(name + ".out_transposed");
  return norm;
}

}  // namespace

BlockShared::BlockShared(Ops* ops, const Arena& arena, const ModelShape& shape, bool deterministic,
                         Weights* weights, Telemetry* telemetry)
    : ops(ops),
      arena(arena),
      shape(shape),
      deterministic(deterministic),
      weights(weights),
      telemetry(telemetry),
      cos(arena.Get("rotary.cos")),
      sin(arena.Get("rotary.sin")),
      nonfinite(arena.Get("step.nonfinite")),
      partials(arena.Get("amax.partials").data, DType::kF32, {shape.tokens()}),
      residual(arena.Get("forward.residual")),
      branch(arena.Get("forward.branch")),
      gate_up(arena.Find("forward.gate_up")),
      attention_norm_codes(arena.Find("forward.attention_norm.codes")),
      mlp_norm_codes(arena.Find("forward.mlp_norm.codes")),
      o_codes(arena.Find("forward.o.codes")),
      product_codes(arena.Find("forward.product.codes")),
      dresidual(arena.Get("backward.residual")),
      dproduct(arena.Get("backward.dproduct")),
      dgate_up(arena.Get("backward.dgate_up")),
      dmlp_norm(arena.Get("backward.dmlp_norm")),
      do_(arena.Get("backward.do")),
      dqkv(arena.Get("backward.dqkv")),
      dattention_norm(arena.Get("backward.dattention_norm")) {
  for (const Linear which : kAllLinears) {
    const std::string prefix = std::string("backward.") + LinearName(which);
    LinearTransients& transients = linear[static_cast<size_t>(which)];
    transients.codes = arena.Find(prefix + ".codes");
    transients.codes_transposed = arena.Find(prefix + ".codes_transposed");
    transients.input_transposed = arena.Find(prefix + ".input_transposed");
  }
}

Block::Block(BlockShared* shared, int64_t layer, const LayerRecipe& recipe)
    : shared_(*shared), ops_(*shared->ops), layer_(layer), recipe_(recipe) {
  const Arena& arena = shared->arena;
  const std::string attention = LayerName(layer, "attention");
  const std::string swiglu = LayerName(layer, "swiglu");
  attention_norm_ = BindNorm(arena, LayerName(layer, "attention_norm"));
  mlp_norm_ = BindNorm(arena, LayerName(layer, "mlp_norm"));
  qkv_ = arena.Get(attention + ".qkv");
  o_ = arena.Get(attention + ".o");
  lse_ = arena.Get(attention + ".lse");
  if (recipe.gate_up == Kept::kGroup) {
    gate_up_ = shared->gate_up;
    gate_up_q8_ = {arena.Get(swiglu + ".q8.codes"), arena.Get(swiglu + ".q8.scales"), 2};
  } else {
    gate_up_ = arena.Get(swiglu + ".gate_up");
  }
  product_ = arena.Find(swiglu + ".product");
  product_transposed_ = arena.Find(swiglu + ".product_transposed");
  const Tensor scales = arena.Get("activations.scales");
  const Tensor gradient_scales = arena.Get("gradients.scales");
  for (const Linear which : kAllLinears) {
    scales_[static_cast<size_t>(which)] = LinearScalar(scales, layer, which);
    gradient_scales_[static_cast<size_t>(which)] = LinearScalar(gradient_scales, layer, which);
  }
}

const Tensor& Block::input() const {
  return attention_norm_.x.empty() ? shared_.residual : attention_norm_.x;
}

Activation Block::Input(const SavedNorm& norm) {
  return norm.q8.empty() ? Activation{norm.x, {}} : Activation{{}, norm.q8};
}

Activation Block::GateUp() const {
  return gate_up_q8_.empty() ? Activation{gate_up_, {}} : Activation{{}, gate_up_q8_};
}

}  // namespace coat
