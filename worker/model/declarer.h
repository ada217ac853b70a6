// How declare.cc and declare_transients.cc build the list of declare.h.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "configs/base/units.h"
#include "worker/model/declare.h"

namespace coat {

class Declarer {
 public:
  using Dims = std::vector<int64_t>;

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

}  // namespace coat
