// AddNorm, NormApply and NormBackward.
#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class NormTest : public OpsTest {
 protected:
  static constexpr float kEps = 1e-5f;

  // (x rstd) gamma with the roundings NUMERICS 3 writes down.
  static float Value(float x, float rstd, float gamma) { return (x * rstd) * gamma; }
};
INSTANTIATE_TEST_SUITE_P(Devices, NormTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

struct Shape {
  int64_t rows, cols;
};
// Hidden sizes that are no multiple of anything, one token, more than one chunk of rows.
// Rows of whole groups and others, of every number of groups a thread of a GPU takes.
const Shape kShapes[] = {{1, 72}, {17, 72},   {300, 160}, {17, 5120}, {130, 200}, {1000, 72},
                         {3, 5},  {3, 16384}, {2, 12300}, {2, 40000}, {2, 33001}, {2, 1}};

TEST_P(NormTest, AddNormQuantizesTheRoundedSum) {
  for (const auto& [rows, cols] : kShapes) {
    const std::vector<float> residual = NormalBf16(rows * cols, 2.0, 1);
    const std::vector<float> branch = NormalBf16(rows * cols, 0.7, 2);
    const std::vector<float> gamma = Normal(cols, 1.0, 3);
    std::vector<float> sum(residual.size());
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<float>(NearestBf16(residual[i] + branch[i]));
    }
    const ReferenceGroups groups = QuantizeRows(sum, rows, cols, 1);
    AddNormArgs args;
    args.residual = Put(DType::kBF16, {rows, cols}, residual);
    args.branch = Put(DType::kBF16, {rows, cols}, branch);
    args.residual_out = Out(DType::kBF16, {rows, cols});
    args.q8 = OutGroups(rows, cols, 1);
    args.gamma = Put(DType::kF32, {cols}, gamma);
    args.rstd = Out(DType::kF32, {rows});
    args.amax = Out(DType::kF32, {rows});
    args.eps = kEps;
    ops().AddNorm(args);
    EXPECT_EQ(Get(args.residual_out), sum);
    EXPECT_EQ(Codes(args.q8.codes), groups.codes);
    EXPECT_EQ(Get(args.q8.scales), groups.scales);
    const std::vector<float> rstd = Get(args.rstd), amax = Get(args.amax);
    std::vector<double> want_rstd;
    std::vector<float> want_amax;
    for (int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      float largest = 0;
      for (int64_t col = 0; col < cols; ++col) {
        const float x = groups.values[static_cast<size_t>(row * cols + col)];
        squares += static_cast<double>(x) * x;
        largest = std::max(largest, std::fabs(Value(x, rstd[row], gamma[col])));
      }
      want_rstd.push_back(1 / std::sqrt(squares / static_cast<double>(cols) + kEps));
      want_amax.push_back(largest);
    }
    // cols/16 additions a lane, then 4, each with an error of 2^-24, halved by the square root.
    ExpectClose(rstd, want_rstd, (static_cast<double>(cols) / 32 + 8) * 0x1p-24, 0, "rstd");
    EXPECT_EQ(amax, want_amax);
  }
}

TEST_P(NormTest, AddNormInPlaceWithoutQuantization) {
  const int64_t rows = 17, cols = 72;
  const std::vector<float> residual = NormalBf16(rows * cols, 2.0, 1);
  const std::vector<float> branch = NormalBf16(rows * cols, 2.0, 2);
  AddNormArgs args;
  args.residual = Put(DType::kBF16, {rows, cols}, residual);
  args.branch = Put(DType::kBF16, {rows, cols}, branch);
  args.residual_out = args.residual;
  args.gamma = Put(DType::kF32, {cols}, Normal(cols, 1.0, 3));
  args.rstd = Out(DType::kF32, {rows});
  ops().AddNorm(args);
  const std::vector<float> sum = Get(args.residual);
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t i = row * cols; i < (row + 1) * cols; ++i) {
      EXPECT_EQ(sum[i], static_cast<float>(NearestBf16(residual[i] + branch[i])));
      squares += static_cast<double>(sum[i]) * sum[i];
    }
    const double want = 1 / std::sqrt(squares / cols + args.eps);
    EXPECT_NEAR(Get(args.rstd)[row], want, want * 0x1p-20);
  }
}

TEST_P(NormTest, ZeroRowsStayExactlyZero) {
  const int64_t rows = 3, cols = 40;
  std::vector<float> x(rows * cols, 0.0f);
  for (int64_t i = 16; i < 32; ++i) x[2 * cols + i] = 1.5f;  // a normal group among zeros
  AddNormArgs args;
  args.residual = Put(DType::kBF16, {rows, cols}, x);
  args.q8 = OutGroups(rows, cols, 1);
  args.gamma = Put(DType::kF32, {cols}, std::vector<float>(cols, 1.0f));
  args.rstd = Out(DType::kF32, {rows});
  args.amax = Out(DType::kF32, {rows});
  ops().AddNorm(args);
  const std::vector<float> scales = Get(args.q8.scales), codes = Get(args.q8.codes);
  EXPECT_EQ(scales[0], 1.0f);
  EXPECT_EQ(scales[6], 1.0f);
  EXPECT_EQ(Get(args.amax)[0], 0.0f);
  EXPECT_NEAR(Get(args.rstd)[0], 1 / std::sqrt(1e-5), 1e-3);
  for (int64_t i = 0; i < 2 * cols; ++i) EXPECT_EQ(codes[i], 0.0f);
  for (int64_t i = 0; i < cols; ++i) {
    EXPECT_EQ(codes[2 * cols + i] != 0.0f, i >= 16 && i < 32) << i;
  }
}

// Groups whose amax is far below what a scale of amax / 448 could express.
TEST_P(NormTest, TinyGroupsKeepFiniteScales) {
  const int64_t cols = 64;
  const float amax[] = {0x1p-133f, 1e-40f, 1e-38f, 1.0f};  // one a group; all exist in BF16
  std::vector<float> x(cols);
  for (int64_t i = 0; i < cols; ++i) x[i] = RoundToBf16(amax[i / 16]) * (i % 2 == 0 ? 1.0f : -1.0f);
  AddNormArgs args;
  args.residual = Put(DType::kBF16, {1, cols}, x);
  args.q8 = OutGroups(1, cols, 1);
  args.gamma = Put(DType::kF32, {cols}, std::vector<float>(cols, 1.0f));
  args.rstd = Out(DType::kF32, {1});
  args.amax = Out(DType::kF32, {1});
  ops().AddNorm(args);
  const ReferenceGroups want = QuantizeRows(x, 1, cols, 1);
  EXPECT_EQ(Codes(args.q8.codes), want.codes);
  const std::vector<float> scales = Get(args.q8.scales), codes = Get(args.q8.codes);
  EXPECT_EQ(scales, want.scales);
  for (int group = 0; group < 3; ++group) EXPECT_EQ(scales[group], 0x1p-126f) << group;
  for (int64_t i = 0; i < cols; ++i) {
    const float back = codes[i] * scales[i / 16];
    EXPECT_TRUE(std::isfinite(back));
    // Half a step: 2^-4 relative, or half the smallest code.
    EXPECT_LE(std::fabs(back - x[i]), std::max(std::fabs(x[i]) * 0x1p-4f, 0x1p-136f)) << i;
  }
}

TEST_P(NormTest, NotFiniteInputReachesTheAmax) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = NormalBf16(2 * 48, 1.0, 1);
    x[48 + 20] = bad;
    AddNormArgs args;
    args.residual = Put(DType::kBF16, {2, 48}, x);
    args.q8 = OutGroups(2, 48, 1);
    args.gamma = Put(DType::kF32, {48}, std::vector<float>(48, 1.0f));
    args.rstd = Out(DType::kF32, {2});
    args.amax = Out(DType::kF32, {2});
    ops().AddNorm(args);
    const std::vector<float> amax = Get(args.amax);
    EXPECT_TRUE(std::isfinite(amax[0]));
    EXPECT_FALSE(std::isfinite(amax[1])) << bad;
    EXPECT_EQ(Codes(args.q8.codes)[48 + 20], 0x7F);
    EXPECT_EQ(Get(args.q8.scales)[3 + 1], 1.0f);
  }
}

TEST_P(NormTest, ApplyCodesAreExact) {
  for (const auto& [rows, cols] : kShapes) {
    const ReferenceGroups groups = QuantizeRows(NormalBf16(rows * cols, 2.0, 1), rows, cols, 1);
    const std::vector<float> rstd = Normal(rows, 1.0, 4), gamma = Normal(cols, 1.0, 5);
    std::vector<float> y(groups.values.size());
    float amax = 0;
    for (int64_t i = 0; i < rows * cols; ++i) {
      y[i] = Value(groups.values[i], rstd[i / cols], gamma[i % cols]);
      amax = std::max(amax, std::fabs(y[i]));
    }
    const float scale = ReferenceScale(DType::kE4M3, amax);
    std::vector<uint8_t> want;
    for (float value : y) want.push_back(NearestCode(DType::kE4M3, value * (1.0f / scale)));
    NormApplyArgs args;
    args.x.q8 = PutGroups(groups, rows, cols, 1);
    args.rstd = Put(DType::kF32, {rows}, rstd);
    args.gamma = Put(DType::kF32, {cols}, gamma);
    args.scale = PutScalar(scale);
    args.out = OutFp8(DType::kE4M3, rows, cols);
    args.out_transposed = OutFp8(DType::kE4M3, cols, rows);
    ops().NormApply(args);
    EXPECT_EQ(Codes(args.out), want) << rows << " x " << cols;
    ExpectTransposed(args.out, args.out_transposed);
    ExpectPaddingZero(args.out);
    ExpectPaddingZero(args.out_transposed);
    // Alone, the transposed output is the same.
    const Tensor both = args.out_transposed;
    args.out = Tensor();
    args.out_transposed = OutFp8(DType::kE4M3, cols, rows);
    ops().NormApply(args);
    EXPECT_EQ(Bytes(args.out_transposed), Bytes(both));
  }
}

// The amax AddNorm reports belongs to exactly the values NormApply encodes.
TEST_P(NormTest, ApplyMeetsTheReportedAmax) {
  const int64_t rows = 70, cols = 200;
  AddNormArgs add;
  add.residual = Put(DType::kBF16, {rows, cols}, NormalBf16(rows * cols, 2.0, 1));
  add.q8 = OutGroups(rows, cols, 1);
  add.gamma = Put(DType::kF32, {cols}, Normal(cols, 1.0, 3));
  add.rstd = Out(DType::kF32, {rows});
  add.amax = Out(DType::kF32, {rows});
  ops().AddNorm(add);
  NormApplyArgs args;
  args.x.q8 = add.q8;
  args.rstd = add.rstd;
  args.gamma = add.gamma;
  args.scale = Out(DType::kF32, {1});
  args.out = OutFp8(DType::kE4M3, rows, cols);
  ops().AmaxToScale({add.amax, DType::kE4M3, args.scale, PutInts({0})});
  ops().NormApply(args);
  int largest = 0;
  for (uint8_t code : Codes(args.out)) largest = std::max(largest, code & 0x7F);
  EXPECT_EQ(largest, 0x7E);
}

TEST_P(NormTest, ApplyWritesBf16) {
  const int64_t rows = 17, cols = 72;
  const std::vector<float> x = NormalBf16(rows * cols, 2.0, 1);
  const std::vector<float> rstd = Normal(rows, 1.0, 4), gamma = Normal(cols, 1.0, 5);
  NormApplyArgs args;
  args.x.bf16 = Put(DType::kBF16, {rows, cols}, x);
  args.rstd = Put(DType::kF32, {rows}, rstd);
  args.gamma = Put(DType::kF32, {cols}, gamma);
  args.out = Out(DType::kBF16, {rows, cols});
  ops().NormApply(args);
  std::vector<float> want;
  for (int64_t i = 0; i < rows * cols; ++i) {
    want.push_back(static_cast<float>(NearestBf16(Value(x[i], rstd[i / cols], gamma[i % cols]))));
  }
  EXPECT_EQ(Get(args.out), want);
}

// Sum of weights * norm(x) * gamma; x and gamma follow each other in `all`.
double WeightedNorm(const std::vector<double>& all, const std::vector<float>& weights, int64_t rows,
                    int64_t cols, double eps) {
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = all.data() + row * cols;
    const double* gamma = all.data() + rows * cols;
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += x[i] * x[i];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
    for (int64_t i = 0; i < cols; ++i) sum += weights[row * cols + i] * x[i] * rstd * gamma[i];
  }
  return sum;
}

TEST_P(NormTest, BackwardAgreesWithFiniteDifferences) {
  const int64_t rows = 5, cols = 37;
  const std::vector<float> x = NormalBf16(rows * cols, 1.5, 1);
  const std::vector<float> dy = NormalBf16(rows * cols, 1.0, 2);
  const std::vector<float> gamma = Normal(cols, 1.0, 3);
  const std::vector<float> bypass = NormalBf16(rows * cols, 1.0, 4);
  const std::vector<float> old = Normal(cols, 1.0, 5);
  std::vector<float> rstd;
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) {
      squares += static_cast<double>(x[row * cols + i]) * x[row * cols + i];
    }
    rstd.push_back(static_cast<float>(1 / std::sqrt(squares / cols + kEps)));
  }
  NormBackwardArgs args;
  args.dy = Put(DType::kBF16, {rows, cols}, dy);
  args.x.bf16 = Put(DType::kBF16, {rows, cols}, x);
  args.rstd = Put(DType::kF32, {rows}, rstd);
  args.gamma = Put(DType::kF32, {cols}, gamma);
  args.dresidual = Put(DType::kBF16, {rows, cols}, bypass);
  args.dresidual_out = args.dresidual;
  args.dgamma = Put(DType::kF32, {cols}, old);
  ops().NormBackward(args);
  std::vector<double> all = Widen(x);
  all.insert(all.end(), gamma.begin(), gamma.end());
  const auto f = [&](const std::vector<double>& v) {
    return WeightedNorm(v, dy, rows, cols, kEps);
  };
  std::vector<double> dx, dgamma;
  for (int64_t i = 0; i < rows * cols; ++i) dx.push_back(bypass[i] + CentralDifference(f, all, i));
  for (int64_t i = 0; i < cols; ++i) {
    dgamma.push_back(old[i] + CentralDifference(f, all, rows * cols + i));
  }
  ExpectClose(Get(args.dresidual_out), dx, 0x1p-8, 1e-5, "dx");
  ExpectClose(Get(args.dgamma), dgamma, 1e-5, 1e-5, "dgamma");
}

// Closed form in FP64 on wide rows, many rows and quantized input.
TEST_P(NormTest, BackwardMatchesTheClosedForm) {
  for (const auto& [rows, cols] : kShapes) {
    WorkspaceShape shape;
    shape.hidden = cols;
    UseWorkspace(shape);
    const ReferenceGroups groups = QuantizeRows(NormalBf16(rows * cols, 1.5, 1), rows, cols, 1);
    const std::vector<float> dy = NormalBf16(rows * cols, 1.0, 2);
    const std::vector<float> gamma = Normal(cols, 1.0, 3), rstd = Normal(rows, 0.2, 6);
    NormBackwardArgs args;
    args.dy = Put(DType::kBF16, {rows, cols}, dy);
    args.x.q8 = PutGroups(groups, rows, cols, 1);
    args.rstd = Put(DType::kF32, {rows}, rstd);
    args.gamma = Put(DType::kF32, {cols}, gamma);
    args.dresidual_out = Out(DType::kBF16, {rows, cols});
    args.dgamma = Put(DType::kF32, {cols}, std::vector<float>(cols, 0.0f));
    ops().NormBackward(args);
    std::vector<double> dx(dy.size()), dgamma(cols, 0.0);
    for (int64_t row = 0; row < rows; ++row) {
      double dot = 0;
      for (int64_t i = 0; i < cols; ++i) {
        const double xhat = static_cast<double>(groups.values[row * cols + i]) * rstd[row];
        dot += dy[row * cols + i] * xhat * gamma[i];
        dgamma[i] += dy[row * cols + i] * xhat;
      }
      for (int64_t i = 0; i < cols; ++i) {
        const double xhat = static_cast<double>(groups.values[row * cols + i]) * rstd[row];
        dx[row * cols + i] = rstd[row] * (static_cast<double>(dy[row * cols + i]) * gamma[i] -
                                          xhat * dot / static_cast<double>(cols));
      }
    }
    const double noise = 0x1p-24 * static_cast<double>(cols);
    ExpectClose(Get(args.dresidual_out), dx, 0x1p-8, noise, "dx");
    ExpectClose(Get(args.dgamma), dgamma, 1e-5, 0x1p-22 * static_cast<double>(rows), "dgamma");
  }
}

TEST_P(NormTest, RepeatsBitwise) {
  const int64_t rows = 300, cols = 72;
  NormBackwardArgs args;
  args.dy = Put(DType::kBF16, {rows, cols}, NormalBf16(rows * cols, 1.0, 2));
  args.x.bf16 = Put(DType::kBF16, {rows, cols}, NormalBf16(rows * cols, 1.0, 1));
  args.rstd = Put(DType::kF32, {rows}, Normal(rows, 1.0, 3));
  args.gamma = Put(DType::kF32, {cols}, Normal(cols, 1.0, 4));
  args.dresidual_out = Out(DType::kBF16, {rows, cols});
  std::vector<std::vector<uint8_t>> results;
  for (int i = 0; i < 2; ++i) {
    args.dgamma = Put(DType::kF32, {cols}, std::vector<float>(cols, 0.0f));
    ops().NormBackward(args);
    results.push_back(Bytes(args.dgamma));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace coat
