#include "worker/model/parameters.h"

#include <cmath>

namespace coat {

std::string LayerName(int64_t layer, const std::string& rest) {
  return "layers." + std::to_string(layer) + "." + rest;
}

const char* HeadName(const ModelShape& shape) { return shape.tied ? "embedding" : "head"; }

std::vector<ParameterDecl> DeclareParameters(const ModelShape& shape) {
  const double residual_std = shape.init_std / std::sqrt(2.0 * static_cast<double>(shape.layers));
  std::vector<ParameterDecl> list;
  list.push_back({"embedding", {shape.vocab, shape.hidden}, shape.init_std});
  for (int64_t i = 0; i < shape.layers; ++i) {
    const auto linear = [&](Linear which, double std) {
      const LinearShape size = ShapeOf(shape, which);
      list.push_back({LayerName(i, LinearName(which)), {size.out, size.in}, std});
    };
    list.push_back({LayerName(i, "attention_norm"), {shape.hidden}, 0});
    linear(Linear::kQkv, shape.init_std);
    linear(Linear::kOutput, residual_std);
    list.push_back({LayerName(i, "mlp_norm"), {shape.hidden}, 0});
    linear(Linear::kGateUp, shape.init_std);
    linear(Linear::kDown, residual_std);
  }
  list.push_back({"final_norm", {shape.hidden}, 0});
  if (!shape.tied) list.push_back({"head", {shape.vocab, shape.hidden}, shape.init_std});
  return list;
}

}  // namespace coat
