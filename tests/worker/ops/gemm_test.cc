#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

struct Problem {
  int64_t m, n, k;
};

class GemmTest : public OpsTest {
 protected:
  static std::vector<uint8_t> RandomCodes(int64_t count, DType dtype, uint64_t seed) {
    std::vector<uint8_t> out;
    const double sigma = dtype == DType::kE4M3 ? 100 : 10000;
    for (float x : Normal(count, sigma, seed)) out.push_back(NearestCode(dtype, x));
    return out;
  }

  static std::vector<double> Values(const std::vector<uint8_t>& codes, DType dtype) {
    std::vector<double> out;
    for (uint8_t code : codes) out.push_back(CodeValue(dtype, code));
    return out;
  }

  // c(m, n) = alpha a(m, k) b(n, k)^T + old, and the bound of NUMERICS 6.
  void ExpectProduct(const Tensor& c, const Problem& p, const std::vector<double>& a,
                     const std::vector<double>& b, double alpha, const std::vector<double>& old,
                     double g) {
    const std::vector<float> got = Get(c);
    double worst = 0;
    std::string place;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const double term = a[i * p.k + k] * b[j * p.k + k];
          sum += term;
          magnitude += std::fabs(term);
        }
        const double before = old.empty() ? 0 : old[i * p.n + j];
        const double want = alpha * sum + before;
        // F32 outputs still round twice: after the scales and after the accumulation.
        const double rounding = c.dtype == DType::kF32 ? 0x1p-22
                                : old.empty()          ? 0x1p-8
                                                       : PerDevice(0x1p-8, 0x1p-7);
        const double bound =
            rounding * (std::fabs(want) + std::fabs(before)) + g * std::fabs(alpha) * magnitude;
        const double ratio = ErrorRatio(std::fabs(got[i * p.n + j] - want), bound);
        if (ratio <= worst) continue;
        worst = ratio;
        std::ostringstream text;
        text << ", worst at (" << i << ", " << j << "): got " << got[i * p.n + j] << ", want "
             << want << " over " << before << ", sum of magnitudes " << magnitude << ", "
             << DTypeName(c.dtype);
        place = text.str();
      }
    }
    EXPECT_LE(worst, 1.0) << p.m << " x " << p.n << " x " << p.k << place;
  }

  double Fp8Bound(int64_t k) const { return PerDevice(static_cast<double>(k) * 0x1p-24, 0x1p-10); }
  // Tensor cores truncate where the CPU rounds.
  double WideBound(int64_t k) const { return static_cast<double>(k) * PerDevice(0x1p-24, 0x1p-22); }
};
INSTANTIATE_TEST_SUITE_P(Devices, GemmTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

// Odd sizes; one that crosses the blocks of every dimension.
const Problem kProblems[] = {{1, 72, 72},    {17, 200, 72}, {257, 17, 344},
                             {530, 520, 33}, {5, 3, 2100},  {600, 20, 1100}};

TEST_P(GemmTest, Fp8) {
  struct Pair {
    DType a, b;
  };
  for (const Problem& p : kProblems) {
    for (const Pair& type : {Pair{DType::kE4M3, DType::kE4M3}, Pair{DType::kE5M2, DType::kE4M3},
                             Pair{DType::kE4M3, DType::kE5M2}}) {
      const std::vector<uint8_t> a = RandomCodes(p.m * p.k, type.a, 1);
      const std::vector<uint8_t> b = RandomCodes(p.n * p.k, type.b, 2);
      GemmArgs args;
      args.a = PutCodes(type.a, p.m, p.k, a);
      args.b = PutCodes(type.b, p.n, p.k, b);
      args.a_scale = PutScalar(3e-3f);
      args.b_scale = PutScalar(7e-5f);
      args.c = Out(DType::kBF16, {p.m, p.n});
      ops().Gemm(args);
      const double alpha = static_cast<double>(3e-3f) * static_cast<double>(7e-5f);
      ExpectProduct(args.c, p, Values(a, type.a), Values(b, type.b), alpha, {}, Fp8Bound(p.k));
    }
  }
}

TEST_P(GemmTest, Fp8AccumulatesIntoBothOutputs) {
  const Problem p{40, 72, 530};
  const std::vector<uint8_t> a = RandomCodes(p.m * p.k, DType::kE5M2, 1);
  const std::vector<uint8_t> b = RandomCodes(p.n * p.k, DType::kE4M3, 2);
  for (DType output : {DType::kF32, DType::kBF16}) {
    const std::vector<float> old = NormalBf16(p.m * p.n, 500.0, 3);
    GemmArgs args;
    args.a = PutCodes(DType::kE5M2, p.m, p.k, a);
    args.b = PutCodes(DType::kE4M3, p.n, p.k, b);
    args.a_scale = PutScalar(1e-4f);
    args.b_scale = PutScalar(0.5f);
    args.c = Put(output, {p.m, p.n}, old);
    args.accumulate = true;
    ops().Gemm(args);
    const double alpha = static_cast<double>(1e-4f) * 0.5;
    ExpectProduct(args.c, p, Values(a, DType::kE5M2), Values(b, DType::kE4M3), alpha, Widen(old),
                  Fp8Bound(p.k));
  }
}

// Operands of 16 and 32 bits in every orientation, with and without accumulation.
TEST_P(GemmTest, WideOperandsInEveryOrientation) {
  for (const Problem& p : kProblems) {
    const std::vector<float> a = NormalBf16(p.m * p.k, 1.0, 1), b = NormalBf16(p.n * p.k, 1.0, 2);
    const std::vector<float> old = NormalBf16(p.m * p.n, 1.0, 3);
    const auto turn = [](const std::vector<float>& x, int64_t rows, int64_t cols) {
      std::vector<float> out(x.size());
      for (int64_t i = 0; i < rows * cols; ++i) out[i % cols * rows + i / cols] = x[i];
      return out;
    };
    for (int mode = 0; mode < 8; ++mode) {
      const DType dtype = on_cpu() && (mode & 1) ? DType::kF32 : DType::kBF16;
      GemmArgs args;
      args.a_transposed = (mode & 2) != 0;
      args.b_transposed = (mode & 4) != 0;
      args.accumulate = (mode & 1) == 0;
      args.a =
          args.a_transposed ? Put(dtype, {p.k, p.m}, turn(a, p.m, p.k)) : Put(dtype, {p.m, p.k}, a);
      args.b =
          args.b_transposed ? Put(dtype, {p.k, p.n}, turn(b, p.n, p.k)) : Put(dtype, {p.n, p.k}, b);
      const DType output = mode & 2 ? DType::kF32 : DType::kBF16;
      args.c = args.accumulate ? Put(output, {p.m, p.n}, old) : Out(output, {p.m, p.n});
      ops().Gemm(args);
      ExpectProduct(args.c, p, Widen(a), Widen(b), 1.0,
                    args.accumulate ? Widen(old) : std::vector<double>(), WideBound(p.k));
    }
  }
}

TEST_P(GemmTest, WritesInsideAPaddedOutput) {
  const Problem p{7, 33, 48};
  const std::vector<float> a = NormalBf16(p.m * p.k, 1.0, 1), b = NormalBf16(p.n * p.k, 1.0, 2);
  GemmArgs args;
  args.a = Put(DType::kBF16, {p.m, p.k}, a);
  args.b = Put(DType::kBF16, {p.n, p.k}, b);
  const std::vector<float> marks(static_cast<size_t>(p.m) * 40, 5.0f);
  const Tensor wide = Put(DType::kF32, {p.m, 40}, marks);
  args.c = wide.Columns(0, p.n);
  ops().Gemm(args);
  ExpectProduct(args.c, p, Widen(a), Widen(b), 1.0, {}, WideBound(p.k));
  const std::vector<float> all = Get(wide);
  for (int64_t i = 0; i < p.m * 40; ++i) {
    if (i % 40 >= p.n) {
      EXPECT_EQ(all[i], 5.0f);
    }
  }
}

// The output head: a vocabulary that is a multiple of nothing, as output and as contraction.
TEST_P(GemmTest, OddVocabularies) {
  for (int64_t vocab : {50257, 32003}) {
    const int64_t rows = 3, hidden = 72, ld = RoundUp(vocab, 64);
    const std::vector<float> x = NormalBf16(rows * hidden, 1.0, 1);
    const std::vector<float> head = NormalBf16(vocab * hidden, 0.1, 2);
    GemmArgs logits;
    logits.a = Put(DType::kBF16, {rows, hidden}, x);
    logits.b = Put(DType::kBF16, {vocab, hidden}, head);
    logits.c = Out(DType::kBF16, {rows, vocab}, ld);
    ops().Gemm(logits);
    ExpectProduct(logits.c, {rows, vocab, hidden}, Widen(x), Widen(head), 1.0, {},
                  WideBound(hidden));
    const std::vector<float> dlogits = NormalBf16(rows * vocab, 1e-3, 3);
    std::vector<double> turned(head.size());
    for (int64_t i = 0; i < vocab * hidden; ++i) turned[i % hidden * vocab + i / hidden] = head[i];
    GemmArgs dx;
    dx.a = Put(DType::kBF16, {rows, vocab}, dlogits, ld);
    dx.b = logits.b;
    dx.b_transposed = true;
    dx.c = Out(DType::kBF16, {rows, hidden});
    ops().Gemm(dx);
    ExpectProduct(dx.c, {rows, hidden, vocab}, Widen(dlogits), turned, 1.0, {}, WideBound(vocab));
  }
}

// Two microbatches with one input give the same bits.
TEST_P(GemmTest, RepeatsBitwise) {
  const Problem p{256, 344, 128};
  GemmArgs args;
  args.a = PutCodes(DType::kE4M3, p.m, p.k, RandomCodes(p.m * p.k, DType::kE4M3, 1));
  args.b = PutCodes(DType::kE4M3, p.n, p.k, RandomCodes(p.n * p.k, DType::kE4M3, 2));
  args.a_scale = PutScalar(1.0f);
  args.b_scale = PutScalar(1.0f);
  args.c = Out(DType::kBF16, {p.m, p.n});
  ops().Gemm(args);
  const std::vector<uint8_t> first = Bytes(args.c);
  args.c = Out(DType::kBF16, {p.m, p.n});
  ops().Gemm(args);
  EXPECT_EQ(Bytes(args.c), first);
}

TEST_P(GemmTest, ErrorNamesOperatorAndArgument) {
  GemmArgs args;
  args.a = Put(DType::kBF16, {4, 8}, std::vector<float>(32, 0.0f));
  args.b = Put(DType::kBF16, {5, 9}, std::vector<float>(45, 0.0f));
  args.c = Out(DType::kBF16, {4, 5});
  try {
    ops().Gemm(args);
    FAIL() << "accepted contraction sizes 8 and 9";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("Gemm: b"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("8"));
  }
}

}  // namespace
}  // namespace coat
