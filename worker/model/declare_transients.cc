// What lives only in some stages of a microbatch.
#include "worker/model/declarer.h"

namespace coat {

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

}  // namespace coat
