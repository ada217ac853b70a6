// GateUpQuantize, Swiglu and SwigluBackward.
#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class SwigluTest : public OpsTest {
 protected:
  static double Product(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }
};
INSTANTIATE_TEST_SUITE_P(Devices, SwigluTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

struct Shape {
  int64_t rows, f;
};
// Intermediate sizes that are no multiple of 16: groups never straddle gate and up.
const Shape kShapes[] = {{1, 24}, {17, 72}, {3, 5}, {130, 344}, {17, 1371}, {1, 1}};

TEST_P(SwigluTest, QuantizesGateAndUpApart) {
  for (const auto& [rows, f] : kShapes) {
    const std::vector<float> gate_up = NormalBf16(rows * 2 * f, 3.0, 1);
    const ReferenceGroups groups = QuantizeRows(gate_up, rows, 2 * f, 2);
    GateUpQuantizeArgs args;
    args.gate_up = Put(DType::kBF16, {rows, 2 * f}, gate_up);
    args.q8 = OutGroups(rows, 2 * f, 2);
    args.amax = Out(DType::kF32, {rows});
    ops().GateUpQuantize(args);
    EXPECT_EQ(Codes(args.q8.codes), groups.codes);
    EXPECT_EQ(Get(args.q8.scales), groups.scales);
    std::vector<double> want(static_cast<size_t>(rows), 0.0);
    for (int64_t i = 0; i < rows * f; ++i) {
      const int64_t gate = i / f * 2 * f + i % f;
      want[i / f] =
          std::max(want[i / f], std::fabs(Product(groups.values[gate], groups.values[gate + f])));
    }
    ExpectClose(Get(args.amax), want, 0x1p-21, 0, "amax");
  }
}

TEST_P(SwigluTest, AmaxOfUnquantizedValues) {
  const int64_t rows = 17, f = 72;
  const std::vector<float> gate_up = NormalBf16(rows * 2 * f, 3.0, 1);
  GateUpQuantizeArgs args;
  args.gate_up = Put(DType::kBF16, {rows, 2 * f}, gate_up);
  args.amax = Out(DType::kF32, {rows});
  ops().GateUpQuantize(args);
  std::vector<double> want(rows, 0.0);
  for (int64_t i = 0; i < rows * f; ++i) {
    const int64_t gate = i / f * 2 * f + i % f;
    want[i / f] = std::max(want[i / f], std::fabs(Product(gate_up[gate], gate_up[gate + f])));
  }
  ExpectClose(Get(args.amax), want, 0x1p-21, 0, "amax");
}

TEST_P(SwigluTest, CodesAreTheProductsCodes) {
  for (const auto& [rows, f] : kShapes) {
    const ReferenceGroups groups = QuantizeRows(NormalBf16(rows * 2 * f, 3.0, 1), rows, 2 * f, 2);
    std::vector<double> y;
    float amax = 0;
    for (int64_t i = 0; i < rows * f; ++i) {
      const int64_t gate = i / f * 2 * f + i % f;
      y.push_back(Product(groups.values[gate], groups.values[gate + f]));
      amax = std::max(amax, static_cast<float>(std::fabs(y.back())));
    }
    const float scale = ReferenceScale(DType::kE4M3, amax);
    SwigluArgs args;
    args.gate_up.q8 = PutGroups(groups, rows, 2 * f, 2);
    args.scale = PutScalar(scale);
    args.out = OutFp8(DType::kE4M3, rows, f);
    args.out_transposed = OutFp8(DType::kE4M3, f, rows);
    ops().Swiglu(args);
    const std::vector<uint8_t> codes = Codes(args.out);
    int64_t different = 0;
    for (int64_t i = 0; i < rows * f; ++i) {
      const int want = NearestCode(DType::kE4M3, y[i] / scale);
      different += codes[i] != want;
      ASSERT_LE(std::abs(codes[i] - want), 1) << i;
    }
    EXPECT_LE(static_cast<double>(different), 1 + 1e-4 * static_cast<double>(rows * f));
    ExpectTransposed(args.out, args.out_transposed);
    ExpectPaddingZero(args.out);
    ExpectPaddingZero(args.out_transposed);
  }
}

// The amax that GateUpQuantize reported belongs to exactly these products: with it as the scale
// nothing saturates by more than a rounding, and the largest product has the largest code.
TEST_P(SwigluTest, RecomputationMeetsTheReportedAmax) {
  const int64_t rows = 64, f = 100;
  GateUpQuantizeArgs quantize;
  quantize.gate_up = Put(DType::kBF16, {rows, 2 * f}, NormalBf16(rows * 2 * f, 2.0, 7));
  quantize.q8 = OutGroups(rows, 2 * f, 2);
  quantize.amax = Out(DType::kF32, {rows});
  ops().GateUpQuantize(quantize);
  const Tensor scale = Out(DType::kF32, {1});
  ops().AmaxToScale({quantize.amax, DType::kE4M3, scale, PutInts({0})});
  SwigluArgs args;
  args.gate_up.q8 = quantize.q8;
  args.scale = scale;
  args.out = OutFp8(DType::kE4M3, rows, f);
  ops().Swiglu(args);
  const std::vector<uint8_t> stored = Codes(args.out);
  int largest = 0;
  for (uint8_t code : stored) largest = std::max(largest, code & 0x7F);
  EXPECT_EQ(largest, 0x7E);
  // Recomputed for the backward: the same bits, in the other layout.
  SwigluArgs again = args;
  again.out = Tensor();
  again.out_transposed = OutFp8(DType::kE4M3, f, rows);
  ops().Swiglu(again);
  ExpectTransposed(args.out, again.out_transposed);
}

TEST_P(SwigluTest, WritesBf16) {
  const int64_t rows = 17, f = 72;
  const std::vector<float> gate_up = NormalBf16(rows * 2 * f, 3.0, 1);
  SwigluArgs args;
  args.gate_up.bf16 = Put(DType::kBF16, {rows, 2 * f}, gate_up);
  args.out = Out(DType::kBF16, {rows, f});
  ops().Swiglu(args);
  std::vector<double> want;
  for (int64_t i = 0; i < rows * f; ++i) {
    const int64_t gate = i / f * 2 * f + i % f;
    want.push_back(Product(gate_up[gate], gate_up[gate + f]));
  }
  ExpectClose(Get(args.out), want, 0x1.01p-8, 0, "product");
}

TEST_P(SwigluTest, BackwardAgreesWithFiniteDifferences) {
  for (bool quantized : {false, true}) {
    const int64_t rows = 7, f = 37;
    const std::vector<float> gate_up = NormalBf16(rows * 2 * f, 2.0, 1);
    const std::vector<float> dy = NormalBf16(rows * f, 1.0, 2);
    const ReferenceGroups groups = QuantizeRows(gate_up, rows, 2 * f, 2);
    const std::vector<float>& x = quantized ? groups.values : gate_up;
    SwigluBackwardArgs args;
    if (quantized) {
      args.gate_up.q8 = PutGroups(groups, rows, 2 * f, 2);
    } else {
      args.gate_up.bf16 = Put(DType::kBF16, {rows, 2 * f}, gate_up);
    }
    args.dy = Put(DType::kBF16, {rows, f}, dy);
    args.dgate_up = Out(DType::kBF16, {rows, 2 * f});
    args.amax = Out(DType::kF32, {rows});
    ops().SwigluBackward(args);
    std::vector<double> want(x.size());
    for (int64_t i = 0; i < rows * f; ++i) {
      const int64_t gate = i / f * 2 * f + i % f;
      const auto y = [&](const std::vector<double>& v) { return dy[i] * Product(v[0], v[1]); };
      const std::vector<double> point = {x[gate], x[gate + f]};
      want[gate] = CentralDifference(y, point, 0);
      want[gate + f] = CentralDifference(y, point, 1);
    }
    const std::vector<float> got = Get(args.dgate_up), amax = Get(args.amax);
    ExpectClose(got, want, 0x1p-8, 1e-6, "dgate_up");
    for (int64_t row = 0; row < rows; ++row) {
      float largest = 0;
      for (int64_t i = row * 2 * f; i < (row + 1) * 2 * f; ++i) {
        largest = std::max(largest, std::fabs(got[i]));
      }
      EXPECT_EQ(amax[row], largest);
    }
  }
}

}  // namespace
}  // namespace coat
