#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class MeasureTest : public OpsTest {
 protected:
  struct Counts {
    double nonzero = 0, saturated = 0, flushed = 0, error_sq = 0, value_sq = 0;
  };
  static void Count(float x, float scale, DType format, Counts& out) {
    const uint8_t code = NearestCode(format, x * (1.0f / scale));
    const int magnitude = code & 0x7F;
    out.nonzero += x != 0;
    out.flushed += x != 0 && magnitude == 0;
    out.saturated += magnitude >= FormatOf(format).max_code;
    const double error = x - static_cast<float>(CodeValue(format, code)) * scale;
    out.error_sq += error * error;
    out.value_sq += static_cast<double>(x) * x;
  }
  void ExpectCounters(const Tensor& counters, double values, const Counts& want) {
    const std::vector<float> got = Get(counters);
    EXPECT_EQ(got[0], values);
    EXPECT_EQ(got[1], want.nonzero);
    EXPECT_EQ(got[2], want.saturated);
    EXPECT_EQ(got[3], want.flushed);
    EXPECT_NEAR(got[4], want.error_sq, 1e-4 * want.error_sq);
    EXPECT_NEAR(got[5], want.value_sq, 1e-4 * want.value_sq);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MeasureTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

TEST_P(MeasureTest, PerTensor) {
  const int64_t rows = 33, cols = 300;
  std::vector<float> x = NormalBf16(rows * cols, 1.0, 1);
  for (size_t i = 0; i < x.size(); i += 7) x[i] *= 0x1p-12f;
  for (size_t i = 0; i < x.size(); i += 11) x[i] = 0;
  for (DType format : {DType::kE4M3, DType::kE5M2}) {
    const float scale = 1.0f / static_cast<float>(FormatOf(format).max_value);  // |x| > 1 saturates
    MeasureArgs args;
    args.x = Put(DType::kBF16, {rows, cols}, x);
    args.scale = PutScalar(scale);
    args.format = format;
    args.counters = Put(DType::kF32, {6}, std::vector<float>(6, 0.0f));
    ops().Measure(args);
    Counts want;
    for (float value : x) Count(value, scale, format, want);
    EXPECT_GT(want.saturated, 0);
    ExpectCounters(args.counters, static_cast<double>(x.size()), want);
  }
}

TEST_P(MeasureTest, GroupsOfSegmentsAndAccumulation) {
  const int64_t rows = 17, cols = 2 * 37;
  const std::vector<float> x = Normal(rows * cols, 1.0, 1);
  MeasureArgs args;
  args.x = Put(DType::kF32, {rows, cols}, x);
  args.segments = 2;
  args.counters = Put(DType::kF32, {6}, std::vector<float>(6, 0.0f));
  ops().Measure(args);
  ops().Measure(args);
  Counts want;
  for (int64_t start = 0; start < rows * cols; start += 37) {
    for (int64_t group = 0; group < 37; group += 16) {
      const int64_t end = start + std::min<int64_t>(group + 16, 37);
      float amax = 0;
      for (int64_t i = start + group; i < end; ++i) amax = std::max(amax, std::fabs(x[i]));
      const float scale = static_cast<float>(NearestBf16(ReferenceScale(DType::kE4M3, amax)));
      for (int64_t i = start + group; i < end; ++i) {
        Count(x[i], scale, DType::kE4M3, want);
        Count(x[i], scale, DType::kE4M3, want);
      }
    }
  }
  ExpectCounters(args.counters, 2.0 * static_cast<double>(x.size()), want);
}

TEST_P(MeasureTest, NotFiniteValuesCountAsSaturatedWithoutError) {
  MeasureArgs args;
  args.x = Put(DType::kF32, {1, 4}, {1.0f, NAN, INFINITY, 0.0f});
  args.scale = PutScalar(1.0f);
  args.counters = Put(DType::kF32, {6}, std::vector<float>(6, 0.0f));
  ops().Measure(args);
  EXPECT_EQ(Get(args.counters), (std::vector<float>{4, 3, 2, 0, 0, 1}));
}

}  // namespace
}  // namespace coat
