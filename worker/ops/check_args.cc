#include "worker/ops/check_args.h"

#include <initializer_list>
#include <string>

#include "configs/base/error.h"
#include "configs/base/units.h"

namespace coat {
namespace {

constexpr int64_t kAny = -1;

std::string Describe(const Tensor& x) {
  if (x.empty()) return "nothing";
  return std::string(DTypeName(x.dtype)) + " (" + std::to_string(x.rows()) + ", " +
         std::to_string(x.cols()) + ") with row stride " + std::to_string(x.ld);
}

// One operator's arguments; `name` is the field of its argument struct.
class Arguments {
 public:
  explicit Arguments(const char* op) : op_(op) {}

  [[noreturn]] void Fail(const char* name, const std::string& want, const Tensor& got) const {
    throw Error(Code::kInternal,
                std::string(op_) + ": " + name + " must be " + want + ", not " + Describe(got));
  }

  void Require(bool condition, const char* name, const std::string& want, const Tensor& got) const {
    if (!condition) Fail(name, want, got);
  }

  // Matrix of rows x cols (any leading dimensions) of one of the types.
  void Matrix(const Tensor& x, const char* name, std::initializer_list<DType> types, int64_t rows,
              int64_t cols) const {
    bool type_ok = false;
    for (DType type : types) type_ok = type_ok || x.dtype == type;
    const bool ok = !x.empty() && type_ok && (rows == kAny || x.rows() == rows) &&
                    (cols == kAny || x.cols() == cols) && x.ld >= x.cols();
    if (!ok) Fail(name, Wanted(types) + " (" + Size(rows) + ", " + Size(cols) + ")", x);
  }

  // The same, contiguous, of `numel` elements in any shape.
  void Vector(const Tensor& x, const char* name, std::initializer_list<DType> types,
              int64_t numel) const {
    bool type_ok = false;
    for (DType type : types) type_ok = type_ok || x.dtype == type;
    const bool ok =
        !x.empty() && type_ok && x.contiguous() && (numel == kAny || x.numel() == numel);
    if (!ok) Fail(name, Wanted(types) + " of " + Size(numel) + " contiguous elements", x);
  }
  void OptionalVector(const Tensor& x, const char* name, std::initializer_list<DType> types,
                      int64_t numel) const {
    if (!x.empty()) Vector(x, name, types, numel);
  }
  void OptionalMatrix(const Tensor& x, const char* name, std::initializer_list<DType> types,
                      int64_t rows, int64_t cols) const {
    if (!x.empty()) Matrix(x, name, types, rows, cols);
  }

  void Group(const GroupQuantized& q8, int64_t rows, int64_t cols, int segments) const {
    Matrix(q8.codes, "q8.codes", {DType::kE4M3}, rows, cols);
    Require(q8.segments == segments, "q8.segments", std::to_string(segments), q8.codes);
    Vector(q8.scales, "q8.scales", {DType::kBF16}, rows * GroupsPerRow(cols, segments));
  }

  void Input(const Activation& x, int64_t rows, int64_t cols, int segments) const {
    Require(x.bf16.empty() != x.q8.empty(), "x", "either bf16 or q8", x.bf16);
    if (x.q8.empty()) {
      Matrix(x.bf16, "x.bf16", {DType::kBF16}, rows, cols);
    } else {
      Group(x.q8, rows, cols, segments);
    }
  }

  // Outputs of a producer of GEMM operands: BF16, or codes with a scale, in one or both layouts.
  void Operand(const Tensor& scale, const Tensor& out, const Tensor& transposed, int64_t rows,
               int64_t cols) const {
    Require(!out.empty() || !transposed.empty(), "out", "set, or out_transposed", out);
    OptionalMatrix(out, "out", {DType::kE4M3, DType::kBF16}, rows, cols);
    OptionalMatrix(transposed, "out_transposed", {DType::kE4M3}, cols, rows);
    const bool codes = !transposed.empty() || out.dtype == DType::kE4M3;
    Require(!(codes && !out.empty() && out.dtype == DType::kBF16), "out",
            "F8_E4M3 beside out_transposed", out);
    if (codes) {
      Vector(scale, "scale", {DType::kF32}, 1);
    } else {
      Require(scale.empty(), "scale", "empty for a BF16 output", scale);
    }
  }

 private:
  static std::string Size(int64_t n) { return n == kAny ? "any" : std::to_string(n); }
  static std::string Wanted(std::initializer_list<DType> types) {
    std::string out;
    for (DType type : types) out += (out.empty() ? "" : " or ") + std::string(DTypeName(type));
    return out;
  }

  const char* op_;
};

// Elements along the contraction and the other dimension of a GEMM operand.
struct OperandSize {
  int64_t outer = 0, k = 0;
};
OperandSize SizeOf(const Tensor& x, bool transposed) {
  return transposed ? OperandSize{x.cols(), x.rows()} : OperandSize{x.rows(), x.cols()};
}

bool IsFp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

void CheckOperand(const Arguments& check, const Tensor& x, const Tensor& scale, bool transposed,
                  const char* name, const char* scale_name) {
  check.Matrix(x, name, {DType::kE4M3, DType::kE5M2, DType::kBF16, DType::kF32}, kAny, kAny);
  if (!IsFp8(x.dtype)) {
    check.Require(scale.empty(), scale_name, "empty beside an operand that is not FP8", scale);
    return;
  }
  check.Vector(scale, scale_name, {DType::kF32}, 1);
  check.Require(!transposed, name, "stored along k, as every FP8 operand", x);
  check.Require(x.ld % 16 == 0, name, "of a row stride that is a multiple of 16", x);
}

void CheckShape(const Arguments& check, const AttentionShape& shape, const Tensor& qkv,
                const char* name) {
  const bool ok = shape.batch > 0 && shape.seq > 0 && shape.kv_heads > 0 && shape.head_size > 0 &&
                  shape.head_size % 2 == 0 && shape.heads > 0 && shape.heads % shape.kv_heads == 0;
  check.Require(ok, "shape", "of positive sizes, an even head size, kv_heads dividing heads", qkv);
  check.Matrix(qkv, name, {DType::kBF16}, shape.tokens(), shape.qkv_width());
}

}  // namespace

int64_t GroupsPerRow(int64_t cols, int segments) { return segments * CeilDiv(cols / segments, 16); }

void CheckArgs(const EmbeddingArgs& a) {
  const Arguments check("Embedding");
  check.Vector(a.tokens, "tokens", {DType::kI32}, kAny);
  check.Matrix(a.table, "table", {DType::kF32, DType::kBF16}, kAny, kAny);
  check.Matrix(a.out, "out", {DType::kBF16}, a.tokens.numel(), a.table.cols());
}

void CheckArgs(const EmbeddingBackwardArgs& a) {
  const Arguments check("EmbeddingBackward");
  check.Vector(a.tokens, "tokens", {DType::kI32}, kAny);
  check.Vector(a.order, "order", {DType::kI32}, a.tokens.numel());
  check.Matrix(a.dtable, "dtable", {DType::kF32, DType::kBF16}, kAny, kAny);
  check.Matrix(a.dout, "dout", {DType::kBF16}, a.tokens.numel(), a.dtable.cols());
}

void CheckArgs(const AddNormArgs& a) {
  const Arguments check("AddNorm");
  check.Matrix(a.residual, "residual", {DType::kBF16}, kAny, kAny);
  const int64_t n = a.residual.rows(), d = a.residual.cols();
  check.OptionalMatrix(a.branch, "branch", {DType::kBF16}, n, d);
  check.OptionalMatrix(a.residual_out, "residual_out", {DType::kBF16}, n, d);
  check.Require(a.branch.empty() == a.residual_out.empty(), "residual_out",
                "set exactly when branch is", a.residual_out);
  if (!a.q8.empty()) check.Group(a.q8, n, d, 1);
  check.Vector(a.gamma, "gamma", {DType::kF32}, d);
  check.Vector(a.rstd, "rstd", {DType::kF32}, n);
  check.OptionalVector(a.amax, "amax", {DType::kF32}, n);
}

void CheckArgs(const NormApplyArgs& a) {
  const Arguments check("NormApply");
  const int64_t n = a.rstd.numel(), d = a.gamma.numel();
  check.Vector(a.rstd, "rstd", {DType::kF32}, kAny);
  check.Vector(a.gamma, "gamma", {DType::kF32}, kAny);
  check.Input(a.x, n, d, 1);
  check.Operand(a.scale, a.out, a.out_transposed, n, d);
}

void CheckArgs(const NormBackwardArgs& a) {
  const Arguments check("NormBackward");
  check.Matrix(a.dy, "dy", {DType::kBF16}, kAny, kAny);
  const int64_t n = a.dy.rows(), d = a.dy.cols();
  check.Input(a.x, n, d, 1);
  check.Vector(a.rstd, "rstd", {DType::kF32}, n);
  check.Vector(a.gamma, "gamma", {DType::kF32}, d);
  check.OptionalMatrix(a.dresidual, "dresidual", {DType::kBF16}, n, d);
  check.Matrix(a.dresidual_out, "dresidual_out", {DType::kBF16}, n, d);
  check.Vector(a.dgamma, "dgamma", {DType::kF32}, d);
  if (!a.amax.empty()) check.Vector(a.amax, "amax", {DType::kF32}, n);
}

void CheckArgs(const AmaxArgs& a) {
  const Arguments check("Amax");
  check.Matrix(a.x, "x", {DType::kBF16, DType::kF32}, kAny, kAny);
  check.Vector(a.amax, "amax", {DType::kF32}, a.x.rows());
}

void CheckArgs(const AmaxToScaleArgs& a) {
  const Arguments check("AmaxToScale");
  check.Vector(a.amax, "amax", {DType::kF32}, kAny);
  check.Require(IsFp8(a.format), "format", "F8_E4M3 or F8_E5M2", a.amax);
  check.Vector(a.scale, "scale", {DType::kF32}, 1);
  check.Vector(a.nonfinite, "nonfinite", {DType::kI32}, 1);
}

void CheckArgs(const QuantizeArgs& a) {
  const Arguments check("Quantize");
  check.Matrix(a.x, "x", {DType::kBF16, DType::kF32}, kAny, kAny);
  check.Vector(a.scale, "scale", {DType::kF32}, 1);
  check.Require(!a.codes.empty() || !a.codes_transposed.empty(), "codes",
                "set, or codes_transposed", a.codes);
  check.OptionalMatrix(a.codes, "codes", {DType::kE4M3, DType::kE5M2}, a.x.rows(), a.x.cols());
  check.OptionalMatrix(a.codes_transposed, "codes_transposed", {DType::kE4M3, DType::kE5M2},
                       a.x.cols(), a.x.rows());
  check.Require(
      a.codes.empty() || a.codes_transposed.empty() || a.codes.dtype == a.codes_transposed.dtype,
      "codes_transposed", "of the format of codes", a.codes_transposed);
}

void CheckArgs(const TransposeArgs& a) {
  const Arguments check("Transpose");
  check.Matrix(a.x, "x", {DType::kE4M3, DType::kE5M2}, kAny, kAny);
  check.Matrix(a.out, "out", {a.x.dtype}, a.x.cols(), a.x.rows());
}

void CheckArgs(const CastArgs& a) {
  const Arguments check("Cast");
  check.Vector(a.x, "x", {DType::kF32, DType::kBF16}, kAny);
  check.Vector(a.out, "out", {DType::kF32, DType::kBF16}, a.x.numel());
}

void CheckArgs(const GemmArgs& a) {
  const Arguments check("Gemm");
  CheckOperand(check, a.a, a.a_scale, a.a_transposed, "a", "a_scale");
  CheckOperand(check, a.b, a.b_scale, a.b_transposed, "b", "b_scale");
  check.Require(IsFp8(a.a.dtype) == IsFp8(a.b.dtype), "b", "FP8 exactly when a is", a.b);
  const OperandSize m = SizeOf(a.a, a.a_transposed), n = SizeOf(a.b, a.b_transposed);
  check.Require(m.k == n.k, "b", "of the contraction size of a, " + std::to_string(m.k), a.b);
  check.Matrix(a.c, "c", {DType::kBF16, DType::kF32}, m.outer, n.outer);
}

void CheckArgs(const RopeArgs& a) {
  const Arguments check("Rope");
  CheckShape(check, a.shape, a.qkv, "qkv");
  const int64_t angles = a.shape.seq * a.shape.head_size / 2;
  check.Vector(a.cos, "cos", {DType::kF32}, angles);
  check.Vector(a.sin, "sin", {DType::kF32}, angles);
  check.OptionalVector(a.amax, "amax", {DType::kF32}, a.shape.tokens());
}

void CheckArgs(const AttentionArgs& a) {
  const Arguments check("Attention");
  CheckShape(check, a.shape, a.qkv, "qkv");
  check.Matrix(a.o, "o", {DType::kBF16}, a.shape.tokens(), a.shape.heads * a.shape.head_size);
  check.Vector(a.lse, "lse", {DType::kF32}, a.shape.tokens() * a.shape.heads);
}

void CheckArgs(const AttentionBackwardArgs& a) {
  const Arguments check("AttentionBackward");
  CheckShape(check, a.shape, a.qkv, "qkv");
  CheckShape(check, a.shape, a.dqkv, "dqkv");
  const int64_t width = a.shape.heads * a.shape.head_size;
  check.Matrix(a.o, "o", {DType::kBF16}, a.shape.tokens(), width);
  check.Vector(a.lse, "lse", {DType::kF32}, a.shape.tokens() * a.shape.heads);
  check.Matrix(a.dout, "dout", {DType::kBF16}, a.shape.tokens(), width);
}

void CheckArgs(const GateUpQuantizeArgs& a) {
  const Arguments check("GateUpQuantize");
  check.Matrix(a.gate_up, "gate_up", {DType::kBF16}, kAny, kAny);
  check.Require(a.gate_up.cols() % 2 == 0, "gate_up", "of an even number of columns", a.gate_up);
  if (!a.q8.empty()) check.Group(a.q8, a.gate_up.rows(), a.gate_up.cols(), 2);
  check.OptionalVector(a.amax, "amax", {DType::kF32}, a.gate_up.rows());
}

void CheckArgs(const SwigluArgs& a) {
  const Arguments check("Swiglu");
  const Tensor& x = a.gate_up.q8.empty() ? a.gate_up.bf16 : a.gate_up.q8.codes;
  check.Require(x.cols() % 2 == 0, "gate_up", "of an even number of columns", x);
  check.Input(a.gate_up, x.rows(), x.cols(), 2);
  check.Operand(a.scale, a.out, a.out_transposed, x.rows(), x.cols() / 2);
}

void CheckArgs(const SwigluBackwardArgs& a) {
  const Arguments check("SwigluBackward");
  check.Matrix(a.dy, "dy", {DType::kBF16}, kAny, kAny);
  const int64_t n = a.dy.rows(), f = a.dy.cols();
  check.Input(a.gate_up, n, 2 * f, 2);
  check.Matrix(a.dgate_up, "dgate_up", {DType::kBF16}, n, 2 * f);
  check.OptionalVector(a.amax, "amax", {DType::kF32}, n);
}

void CheckArgs(const CrossEntropyArgs& a) {
  const Arguments check("CrossEntropy");
  check.Matrix(a.logits, "logits", {DType::kBF16, DType::kF32}, kAny, kAny);
  check.Vector(a.targets, "targets", {DType::kI32}, a.logits.rows());
  check.Vector(a.inverse_count, "inverse_count", {DType::kF32}, 1);
  check.OptionalMatrix(a.dlogits, "dlogits", {DType::kBF16}, a.logits.rows(), a.logits.cols());
  check.Vector(a.nll, "nll", {DType::kF32}, a.logits.rows());
}

void CheckArgs(const SumArgs& a) {
  const Arguments check("Sum");
  check.Vector(a.x, "x", {DType::kF32}, kAny);
  check.Vector(a.out, "out", {DType::kF32}, 1);
}

void CheckArgs(const MeasureArgs& a) {
  const Arguments check("Measure");
  check.Matrix(a.x, "x", {DType::kBF16, DType::kF32}, kAny, kAny);
  check.OptionalVector(a.scale, "scale", {DType::kF32}, 1);
  check.Require(IsFp8(a.format), "format", "F8_E4M3 or F8_E5M2", a.x);
  check.Require(!a.scale.empty() || a.format == DType::kE4M3, "format", "F8_E4M3 for 1x16 groups",
                a.x);
  check.Require(a.segments >= 1 && a.x.cols() % a.segments == 0, "segments",
                "a divisor of the columns", a.x);
  check.Vector(a.counters, "counters", {DType::kF32}, 6);
}

}  // namespace coat
