// The stored tensors of a model: names, shapes, starting values. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/model/shape.h"

namespace coat {

// One stored tensor: position in the list is Parameter::id.
struct ParameterDecl {
  std::string name;
  std::vector<int64_t> shape;
  double init_std = 0;  // 0: a gain, starts at 1
  bool is_gain() const { return shape.size() == 1; }
};

// embedding; of each layer attention_norm, qkv, output, mlp_norm, gate_up, down; final_norm; head
// unless tied.
inline constexpr int64_t kLayerParameters = 6;
std::vector<ParameterDecl> DeclareParameters(const ModelShape& shape);

std::string LayerName(int64_t layer, const std::string& rest);  // "layers.3.qkv"
const char* HeadName(const ModelShape& shape);                  // "head", or "embedding" if tied

}  // namespace coat
