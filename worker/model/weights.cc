#include "worker/model/weights.h"

#include <map>
#include <set>

#include "configs/base/units.h"
#include "worker/model/declare.h"

namespace coat {

Weights::Weights(const coatrack::v1::JobSpec& spec, Ops* ops, const Arena& arena, Tensor nonfinite)
    : ops_(ops),
      nonfinite_(nonfinite),
      partials_(arena.Get("amax.partials")),
      codes_(arena.Find("weight.codes")) {
  Bind(spec, ResolveShape(spec), arena);
}

void Weights::Bind(const coatrack::v1::JobSpec& spec, const ModelShape& shape, const Arena& arena) {
  const std::string head = HeadName(shape);
  const auto master = [&](const std::string& name) { return arena.Get(name + ".master"); };
  const auto gradient = [&](const std::string& name) { return arena.Get(name + ".gradient"); };
  const auto gain = [&](const std::string& name) {
    const Tensor copy = arena.Find(name + ".f32");
    return Gain{master(name), copy.empty() ? master(name) : copy, gradient(name)};
  };
  const std::vector<LayerRecipe> recipes = ResolveRecipes(spec);
  std::map<std::string, Tensor> amax_of;
  std::set<std::string> linears;
  const Tensor amax = arena.Get("weights.amax");
  const Tensor scales = arena.Get("weights.scales");
  for (int64_t i = 0; i < shape.layers; ++i) {
    LayerWeights layer;
    layer.attention_norm = gain(LayerName(i, "attention_norm"));
    layer.mlp_norm = gain(LayerName(i, "mlp_norm"));
    for (const Linear which : kAllLinears) {
      const std::string name = LayerName(i, LinearName(which));
      LinearWeight& weight = layer.linear[static_cast<size_t>(which)];
      weight.fp8 = recipes[static_cast<size_t>(i)].fp8_gemm();
      weight.master = master(name);
      weight.gradient = gradient(name);
      linears.insert(name);
      if (weight.fp8) {
        weight.amax = LinearScalar(amax, i, which);
        amax_of[name] = weight.amax;
        weight.scale = LinearScalar(scales, i, which);
        weight.codes = arena.Find(name + ".codes");
        weight.codes_transposed = arena.Find(name + ".codes_transposed");
      } else {
        const Tensor copy = arena.Find(name + ".copy");
        weight.bf16 = copy.empty() ? weight.master : copy;
      }
    }
    layers_.push_back(layer);
  }
  final_norm_ = gain("final_norm");
  embedding_ = master("embedding");
  embedding_gradient_ = gradient("embedding");
  const Tensor head_copy = arena.Find(head + ".copy");
  head_ = head_copy.empty() ? master(head) : head_copy;
  head_gradient_ = gradient(head);

  for (const ParameterDecl& decl : DeclareParameters(shape)) {
    Parameter parameter;
    parameter.name = decl.name;
    parameter.shape = decl.shape;
    parameter.decay = !decl.is_gain();
    parameter.id = static_cast<uint32_t>(parameters_.size());
    parameter.master = master(decl.name);
    parameter.grad = gradient(decl.name);
    parameter.copy = arena.Find(decl.name + ".copy");
    parameter.overwritten = linears.contains(decl.name);
    const auto largest = amax_of.find(decl.name);
    if (largest != amax_of.end()) parameter.amax = largest->second;
    parameters_.push_back(parameter);
  }
}

void Weights::CastGain(const Gain& gain) {
  if (gain.f32.data != gain.master.data) ops_->Cast({gain.master, gain.f32});
}

void Weights::Reload() {
  for (const Parameter& parameter : parameters_) {
    if (!parameter.copy.empty()) ops_->Cast({parameter.master, parameter.copy});
    if (parameter.amax.empty()) continue;
    const int64_t rows = parameter.master.rows();
    ops_->Amax({parameter.master, Tensor(partials_.data, DType::kF32, {rows})});
    ops_->Amax({Tensor(partials_.data, DType::kF32, {1, rows}), parameter.amax});
  }
  Refresh();
}

void Weights::Refresh() {
  for (const LayerWeights& layer : layers_) {
    CastGain(layer.attention_norm);
    CastGain(layer.mlp_norm);
    for (const LinearWeight& weight : layer.linear) {
      if (!weight.fp8) continue;
      ops_->AmaxToScale({weight.amax, DType::kE4M3, weight.scale, nonfinite_});
      if (weight.codes.empty()) continue;
      ops_->Quantize({weight.master, weight.scale, weight.codes, weight.codes_transposed});
    }
  }
  CastGain(final_norm_);
}

Tensor Weights::Workspace(int64_t rows, int64_t cols) const {
  return Tensor(codes_.data, DType::kE4M3, {rows, cols}, RoundUp(cols, 16));
}

GemmOperand Weights::Forward(int64_t layer, Linear linear_kind) {
  const LinearWeight& weight = linear(layer, linear_kind);
  if (!weight.fp8) return {weight.bf16, {}};
  if (!weight.codes.empty()) return {weight.codes, weight.scale};
  const Tensor codes = Workspace(weight.master.rows(), weight.master.cols());
  ops_->Quantize({weight.master, weight.scale, codes, {}});
  return {codes, weight.scale};
}

GemmOperand Weights::Transposed(int64_t layer, Linear linear_kind) {
  const LinearWeight& weight = linear(layer, linear_kind);
  if (!weight.codes_transposed.empty()) return {weight.codes_transposed, weight.scale};
  const Tensor codes = Workspace(weight.master.cols(), weight.master.rows());
  ops_->Quantize({weight.master, weight.scale, {}, codes});
  return {codes, weight.scale};
}

}  // namespace coat
