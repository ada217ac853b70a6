#include "worker/model/declare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "configs/base/units.h"
#include "worker/model/model.h"

namespace coat {
namespace {

using Dims = std::vector<int64_t>;

class Declarer {
 public:
  explicit Declarer(const coatrack::v1::JobSpec& spec)
      : spec_(spec),
        shape_(ResolveShape(spec)),
        recipes_(ResolveRecipes(spec)),
        bf16_masters_(HasBf16Masters(spec)),
        bf16_gradients_(spec.precision().gradients() == coatrack::v1::GRADIENT_FORMAT_BF16),
        resident_(spec.precision().fp8_weights() == coatrack::v1::FP8_WEIGHTS_RESIDENT) {}

  std::vector<TensorDecl> Run() {
    Parameters();
    for (int64_t i = 0; i < shape_.layers; ++i) {
      WeightCopies(i);
      Saved(i);
    }
    Buffers();
    ForwardTransients();
    HeadTransients();
    BackwardTransients();
    return std::move(list_);
  }

 private:
  void Parameters();
  void WeightCopies(int64_t layer);
  void Saved(int64_t layer);
  void SavedNorm(const std::string& prefix, const LayerRecipe& recipe);
  void Buffers();
  void ForwardTransients();
  void HeadTransients();
  void BackwardTransients();
  void LinearGradient(Linear linear, Stage quantize, Stage backward);

  // Contiguous.
  TensorDecl& Add(std::string name, TensorRole role, DType dtype, Dims shape) {
    TensorDecl decl;
    decl.name = std::move(name);
    decl.role = role;
    decl.dtype = dtype;
    decl.shape = std::move(shape);
    decl.ld = decl.shape.back();
    decl.rows = 1;
    for (size_t i = 0; i + 1 < decl.shape.size(); ++i) decl.rows *= decl.shape[i];
    list_.push_back(std::move(decl));
    return list_.back();
  }
  // An FP8 operand of a GEMM: rows and columns padded to 16.
  TensorDecl& AddOperand(std::string name, TensorRole role, DType dtype, int64_t rows,
                         int64_t cols) {
    TensorDecl& decl = Add(std::move(name), role, dtype, {rows, cols});
    decl.rows = RoundUp(rows, 16);
    decl.ld = RoundUp(cols, 16);
    return decl;
  }
  void AddGroups(const std::string& prefix, int64_t cols, int segments) {
    Add(prefix + ".q8.codes", TensorRole::kSaved, DType::kE4M3, {tokens(), cols});
    Add(prefix + ".q8.scales", TensorRole::kSaved, DType::kBF16,
        {tokens(), segments * CeilDiv(cols / segments, 16)});
  }
  static void Live(TensorDecl& decl, Stage first, Stage last) {
    decl.first = first;
    decl.last = last;
  }

  template <typename Predicate>
  bool Any(Predicate predicate) const {
    return std::any_of(recipes_.begin(), recipes_.end(), predicate);
  }
  bool AnyFp8() const {
    return Any([](const LayerRecipe& r) { return r.fp8_gemm(); });
  }
  bool AnyBf16() const {
    return Any([](const LayerRecipe& r) { return !r.fp8_gemm(); });
  }
  int64_t tokens() const { return shape_.tokens(); }

  const coatrack::v1::JobSpec& spec_;
  const ModelShape shape_;
  const std::vector<LayerRecipe> recipes_;
  const bool bf16_masters_, bf16_gradients_, resident_;
  std::vector<TensorDecl> list_;
};

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
    Add(name, TensorRole::kWeightCopy, DType::kF32, {shape_.layers, kLinears});
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
  buffer("activations.scales", DType::kF32, {shape_.layers, kLinears});
  buffer("gradients.scales", DType::kF32, {shape_.layers, kLinears});
  buffer("health", DType::kF32, {kOperands, 8});
  int64_t rows = std::max(tokens(), shape_.vocab);
  for (const Linear linear : kAllLinears) rows = std::max(rows, ShapeOf(shape_, linear).out);
  buffer("amax.partials", DType::kF32, {rows});
}

void Declarer::ForwardTransients() {
  const auto add = [this](const char* name, DType dtype, Dims shape, Stage first, Stage last) {
    Live(Add(name, TensorRole::kTransient, dtype, std::move(shape)), first, last);
  };
  const Dims hidden = {tokens(), shape_.hidden};
  add("forward.residual", DType::kBF16, hidden, Stage::kEmbedding, Stage::kHead);
  add("forward.branch", DType::kBF16, hidden, Stage::kAttentionNorm, Stage::kFinalNorm);
  add("final_norm.rstd", DType::kF32, {tokens()}, Stage::kFinalNorm, Stage::kHead);
  if (Any([](const LayerRecipe& r) { return r.gate_up == Kept::kGroup; })) {
    add("forward.gate_up", DType::kBF16, {tokens(), 2 * shape_.intermediate}, Stage::kGateUp,
        Stage::kSwiglu);
  }
  if (!AnyFp8()) return;
  const auto operand = [this](const char* name, int64_t cols, Stage first, Stage last) {
    Live(AddOperand(name, TensorRole::kTransient, DType::kE4M3, tokens(), cols), first, last);
  };
  operand("forward.attention_norm.codes", shape_.hidden, Stage::kQkv, Stage::kQkv);
  operand("forward.o.codes", shape_.q_width(), Stage::kOutput, Stage::kOutput);
  operand("forward.mlp_norm.codes", shape_.hidden, Stage::kGateUp, Stage::kGateUp);
  operand("forward.product.codes", shape_.intermediate, Stage::kSwiglu, Stage::kDown);
  if (resident_) return;
  int64_t bytes = 0;  // one weight at a time, in the direction that is needed
  for (const Linear linear : kAllLinears) {
    const LinearShape size = ShapeOf(shape_, linear);
    bytes = std::max(bytes, RoundUp(size.out, 16) * RoundUp(size.in, 16));
  }
  add("weight.codes", DType::kU8, {bytes}, Stage::kQkv, Stage::kQkvBackward);
}

void Declarer::HeadTransients() {
  const auto add = [this](const char* name, DType dtype, Dims shape) -> TensorDecl& {
    TensorDecl& decl = Add(name, TensorRole::kTransient, dtype, std::move(shape));
    Live(decl, Stage::kHead, Stage::kHead);
    return decl;
  };
  const int64_t rows = shape_.loss_rows;
  add("head.norm", DType::kBF16, {rows, shape_.hidden});
  add("head.logits", DType::kBF16, {rows, shape_.vocab}).ld = RoundUp(shape_.vocab, 16);
  add("head.dnorm", DType::kBF16, {rows, shape_.hidden});
  add("head.nll", DType::kF32, {rows});
}

void Declarer::LinearGradient(Linear linear, Stage quantize, Stage backward) {
  const LinearShape size = ShapeOf(shape_, linear);
  const std::string prefix = std::string("backward.") + LinearName(linear);
  const auto add = [&](const char* suffix, DType dtype, int64_t rows, int64_t cols, Stage first) {
    Live(AddOperand(prefix + suffix, TensorRole::kTransient, dtype, rows, cols), first, backward);
  };
  add(".codes", DType::kE5M2, tokens(), size.out, quantize);
  add(".codes_transposed", DType::kE5M2, size.out, tokens(), quantize);
  add(".input_transposed", DType::kE4M3, size.in, tokens(), backward);
}

void Declarer::BackwardTransients() {
  const auto add = [this](const char* name, int64_t cols, Stage first, Stage last) {
    Live(Add(name, TensorRole::kTransient, DType::kBF16, {tokens(), cols}), first, last);
  };
  add("backward.residual", shape_.hidden, Stage::kHead, Stage::kEmbeddingBackward);
  add("backward.dproduct", shape_.intermediate, Stage::kDownBackward, Stage::kSwigluBackward);
  add("backward.dgate_up", 2 * shape_.intermediate, Stage::kSwigluBackward,
      AnyBf16() ? Stage::kGateUpBackward : Stage::kGateUpQuantize);
  add("backward.dmlp_norm", shape_.hidden, Stage::kGateUpBackward, Stage::kMlpNormBackward);
  add("backward.do", shape_.q_width(), Stage::kOutputBackward, Stage::kAttentionBackward);
  add("backward.dqkv", shape_.qkv_width(), Stage::kAttentionBackward,
      AnyBf16() ? Stage::kQkvBackward : Stage::kQkvQuantize);
  add("backward.dattention_norm", shape_.hidden, Stage::kQkvBackward,
      Stage::kAttentionNormBackward);
  if (!AnyFp8()) return;
  LinearGradient(Linear::kDown, Stage::kDownQuantize, Stage::kDownBackward);
  LinearGradient(Linear::kGateUp, Stage::kGateUpQuantize, Stage::kGateUpBackward);
  LinearGradient(Linear::kOutput, Stage::kOutputQuantize, Stage::kOutputBackward);
  LinearGradient(Linear::kQkv, Stage::kQkvQuantize, Stage::kQkvBackward);
}

}  // namespace

std::string LayerName(int64_t layer, const std::string& rest) {
  return "layers." + std::to_string(layer) + "." + rest;
}

const char* HeadName(const ModelShape& shape) { return shape.tied ? "embedding" : "head"; }

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

std::vector<TensorDecl> DeclareModel(const coatrack::v1::JobSpec& spec) {
  return Declarer(spec).Run();
}

int64_t StorageBytes(const TensorDecl& decl) {
  return decl.rows * decl.ld * ElementBytes(decl.dtype);
}

}  // namespace coat
