#include "worker/model/declare.h"

#include "worker/model/declarer.h"
#include "worker/model/model.h"

namespace coat {

void Declarer::Parameters() {
  const std::string head = HeadName(shape_);
  const DType master = bf16_masters_ ? DType::kBF16 : DType::kF32;
  for (const ParameterDecl& p : DeclareParameters(shape_)) {
    TensorDecl& decl = Add(p.name + ".master", TensorRole::kMaster, master, p.shape);
    if (p.name == head && bf16_masters_) decl.rows = RoundUp(shape_.vocab, 16);
    // Gains are summed over rows and the head's gradient over chunks of logits: in FP32.
    const bool bf16 = bf16_gradients_ && !p.is_gain() && p.name != head;
    Add(p.name + ".gradient", TensorRole::kGradient, bf16 ? DType::kBF16 : DType::kF32, p.shape);
    if (p.is_gain() && bf16_masters_) {
      Add(p.name + ".f32", TensorRole::kWeightCopy, DType::kF32, p.shape);
    }
  }
  if (!bf16_masters_) {
    Add(head + ".copy", TensorRole::kWeightCopy, DType::kBF16, {shape_.vocab, shape_.hidden}).rows =
        RoundUp(shape_.vocab, 16);
  }
  for (const char* name : {"weights.amax", "weights.scales"}) {
    Add(name, TensorRole::kWeightCopy, DType::kF32, {shape_.layers, kLinears, kScalarStride});
  }
}

void Declarer::WeightCopies(int64_t layer) {
  const bool fp8 = recipes_[static_cast<size_t>(layer)].fp8_gemm();
  for (const Linear linear : kAllLinears) {
    const LinearShape size = ShapeOf(shape_, linear);
    const std::string name = LayerName(layer, LinearName(linear));
    if (fp8 && resident_) {
      AddOperand(name + ".codes", TensorRole::kWeightCopy, DType::kE4M3, size.out, size.in);
      AddOperand(name + ".codes_transposed", TensorRole::kWeightCopy, DType::kE4M3, size.in,
                 size.out);
    }
    if (!fp8 && !bf16_masters_) {
      Add(name + ".copy", TensorRole::kWeightCopy, DType::kBF16, {size.out, size.in});
    }
  }
}

void Declarer::SavedNorm(const std::string& prefix, const LayerRecipe& recipe) {
  if (recipe.norm_input == Kept::kGroup) {
    AddGroups(prefix, shape_.hidden, 1);
  } else {
    Add(prefix + ".x", TensorRole::kSaved, DType::kBF16, {tokens(), shape_.hidden});
  }
  Add(prefix + ".rstd", TensorRole::kSaved, DType::kF32, {tokens()});
  if (recipe.norm_output == Kept::kBf16) {
    Add(prefix + ".out", TensorRole::kSaved, DType::kBF16, {tokens(), shape_.hidden});
  } else if (recipe.norm_output == Kept::kE4M3) {
    AddOperand(prefix + ".out_transposed", TensorRole::kSaved, DType::kE4M3, shape_.hidden,
               tokens());
  }
}

void Declarer::Saved(int64_t layer) {
  const LayerRecipe& recipe = recipes_[static_cast<size_t>(layer)];
  SavedNorm(LayerName(layer, "attention_norm"), recipe);
  const std::string attention = LayerName(layer, "attention");
  Add(attention + ".qkv", TensorRole::kSaved, DType::kBF16, {tokens(), shape_.qkv_width()});
  Add(attention + ".o", TensorRole::kSaved, DType::kBF16, {tokens(), shape_.q_width()});
  Add(attention + ".lse", TensorRole::kSaved, DType::kF32,
      {shape_.batch, shape_.heads, shape_.seq});
  SavedNorm(LayerName(layer, "mlp_norm"), recipe);
  const std::string swiglu = LayerName(layer, "swiglu");
  if (recipe.gate_up == Kept::kGroup) {
    AddGroups(swiglu, 2 * shape_.intermediate, 2);
  } else {
    Add(swiglu + ".gate_up", TensorRole::kSaved, DType::kBF16, {tokens(), 2 * shape_.intermediate});
  }
  if (recipe.product == Kept::kBf16) {
    Add(swiglu + ".product", TensorRole::kSaved, DType::kBF16, {tokens(), shape_.intermediate});
  } else if (recipe.product == Kept::kE4M3) {
    AddOperand(swiglu + ".product_transposed", TensorRole::kSaved, DType::kE4M3,
               shape_.intermediate, tokens());
  }
}

void Declarer::Buffers() {
  const auto buffer = [this](const char* name, DType dtype, Dims shape) {
    Add(name, TensorRole::kBuffer, dtype, std::move(shape));
  };
  buffer(kBatchTokens, DType::kI32, {tokens()});
  buffer(kBatchTargets, DType::kI32, {tokens()});
  buffer(kBatchOrder, DType::kI32, {tokens()});
  buffer(kBatchInverseCount, DType::kF32, {1});
  buffer("step.nll", DType::kF32, {1});
  buffer("step.nonfinite", DType::kI32, {1});
  buffer("rotary.cos", DType::kF32, {shape_.seq, shape_.head_size / 2});
  buffer("rotary.sin", DType::kF32, {shape_.seq, shape_.head_size / 2});
  buffer("activations.scales", DType::kF32, {shape_.layers, kLinears, kScalarStride});
  buffer("gradients.scales", DType::kF32, {shape_.layers, kLinears, kScalarStride});
  buffer("health", DType::kF32, {kOperands, 8});
  int64_t rows = tokens();
  for (const Linear linear : kAllLinears) rows = std::max(rows, ShapeOf(shape_, linear).out);
  buffer("amax.partials", DType::kF32, {rows});
}

Tensor LinearScalar(const Tensor& table, int64_t layer, Linear linear) {
  const int64_t at = (layer * kLinears + static_cast<int64_t>(linear)) * kScalarStride;
  return Tensor(table.as<float>() + at, DType::kF32, {1});
}

bool HasBf16Masters(const coatrack::v1::JobSpec& spec) {
  return spec.precision().master() == coatrack::v1::MASTER_WEIGHTS_BF16_SR;
}

std::vector<LayerRecipe> ResolveRecipes(const coatrack::v1::JobSpec& spec) {
  std::vector<LayerRecipe> recipes;
  const int64_t layers = spec.model().layers();
  for (int64_t i = 0; i < layers; ++i) {
    recipes.push_back(ResolveLayerRecipe(spec.precision(), i, layers));
  }
  return recipes;
}

std::vector<TensorDecl> DeclareModel(const coatrack::v1::JobSpec& spec) {
  return Declarer(spec).Run();
}

int64_t StorageBytes(const TensorDecl& decl) {
  return decl.rows * decl.ld * ElementBytes(decl.dtype);
}

}  // namespace coat
