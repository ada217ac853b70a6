#include "worker/precision/recipe.h"

#include <charconv>
#include <string>

#include "configs/base/error.h"

namespace coat {
namespace {

using coatrack::v1::LayerOverride;
using coatrack::v1::PrecisionSpec;

// The layer an override means: an index in [0, layers).
int64_t OverriddenLayer(const LayerOverride& entry, int64_t layers) {
  const std::string& name = entry.layer();
  if (name == "first") return 0;
  if (name == "last") return layers - 1;
  int64_t index = -1;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, index);
  if (name.empty() || parsed.ec != std::errc() || parsed.ptr != end || index < 0 ||
      index >= layers) {
    throw Error(Code::kInvalidArgument,
                "precision.overrides: layer \"" + name + "\" is none of this model's; write " +
                    "\"first\", \"last\" or an index from 0 to " + std::to_string(layers - 1));
  }
  return index;
}

LayerRecipe CoatRecipe(coatrack::v1::SaveMode save) {
  LayerRecipe out;
  const Kept recomputable = save == coatrack::v1::SAVE_MODE_STANDARD ? Kept::kE4M3 : Kept::kNothing;
  out.operand = DType::kE4M3;
  out.gradient = DType::kE5M2;
  out.norm_input = Kept::kGroup;
  out.norm_output = recomputable;
  out.gate_up = Kept::kGroup;
  out.product = recomputable;
  return out;
}

LayerRecipe Fp8Recipe() {
  LayerRecipe out;
  out.operand = DType::kE4M3;
  out.gradient = DType::kE5M2;
  out.norm_output = Kept::kE4M3;
  out.product = Kept::kE4M3;
  return out;
}

}  // namespace

LayerRecipe ResolveLayerRecipe(const PrecisionSpec& spec, int64_t layer, int64_t layers) {
  coatrack::v1::Recipe recipe = spec.recipe();
  for (const LayerOverride& entry : spec.overrides()) {
    if (OverriddenLayer(entry, layers) == layer) recipe = entry.recipe();
  }
  LayerRecipe out;
  switch (recipe) {
    case coatrack::v1::RECIPE_BF16: break;
    case coatrack::v1::RECIPE_FP8: out = Fp8Recipe(); break;
    case coatrack::v1::RECIPE_COAT: out = CoatRecipe(spec.save()); break;
    default:
      throw Error(Code::kInvalidArgument, "precision: layer " + std::to_string(layer) +
                                              " has no recipe; write bf16, fp8 or coat");
  }
  out.recipe = recipe;
  out.fast_forward = out.fp8_gemm() && spec.accumulation() == coatrack::v1::ACCUMULATION_FAST;
  return out;
}

}  // namespace coat
