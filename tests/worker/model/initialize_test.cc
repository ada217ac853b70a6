#include "worker/model/initialize.h"

#include <gtest/gtest.h>

#include "tests/worker/model/rig.h"
#include "worker/model/rotary.h"

namespace coat {
namespace {

std::vector<float> Values(uint64_t seed, uint32_t id, int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  NormalValues(seed, id, 1.0, first, count, values.data());
  return values;
}

TEST(NormalValues, DependOnTheElementAlone) {
  const std::vector<float> whole = Values(7, 3, 0, 1000);
  for (const int64_t first : {0, 1, 2, 3, 4, 257, 998}) {
    const std::vector<float> part = Values(7, 3, first, std::min<int64_t>(100, 1000 - first));
    for (size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], whole[static_cast<size_t>(first) + i]) << first;
    }
  }
}

TEST(NormalValues, DifferBySeedAndTensor) {
  EXPECT_NE(Values(7, 3, 0, 16), Values(8, 3, 0, 16));
  EXPECT_NE(Values(7, 3, 0, 16), Values(7, 4, 0, 16));
}

// The moments of N(0, 1) from n samples: standard errors 1/sqrt(n), sqrt(2/n), sqrt(96/n).
TEST(NormalValues, AreStandardNormal) {
  constexpr int64_t kCount = 1 << 18;
  double sum = 0, squares = 0, fourths = 0, neighbours = 0;
  const std::vector<float> values = Values(1, 0, 0, kCount);
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    if (i > 0) neighbours += x * values[i - 1];
  }
  const double n = kCount;
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(fourths / n, 3, 4 * std::sqrt(96 / n));
  EXPECT_NEAR(neighbours / n, 0, 4 / std::sqrt(n));
}

double Deviation(const Tensor& x) {
  return Norm(Read(x)) / std::sqrt(static_cast<double>(x.numel()));
}

TEST(Initialize, ScalesTheResidualProjections) {
  coatrack::v1::JobSpec job = SmallJob();
  job.mutable_model()->set_hidden_size(128);
  job.mutable_model()->set_layers(8);
  job.mutable_model()->set_init_std(0.02);
  Rig rig(job);
  const double small = 0.02 / std::sqrt(16.0);
  EXPECT_NEAR(Deviation(rig.Find("embedding").master), 0.02, 0.001);
  EXPECT_NEAR(Deviation(rig.Find("layers.5.qkv").master), 0.02, 0.001);
  EXPECT_NEAR(Deviation(rig.Find("layers.5.gate_up").master), 0.02, 0.001);
  EXPECT_NEAR(Deviation(rig.Find("layers.5.output").master), small, 0.05 * small);
  EXPECT_NEAR(Deviation(rig.Find("layers.5.down").master), small, 0.05 * small);
  EXPECT_NE(Read(rig.Find("layers.5.qkv").master), Read(rig.Find("layers.4.qkv").master));
  for (const float gain : Read(rig.Find("layers.5.mlp_norm").master)) EXPECT_EQ(gain, 1.0f);
}

TEST(Initialize, RoundsToBf16Masters) {
  coatrack::v1::JobSpec job = SmallJob();
  Rig fp32(job);
  job.mutable_precision()->set_master(coatrack::v1::MASTER_WEIGHTS_BF16_SR);
  Rig bf16(job);
  const std::vector<float> exact = Read(fp32.Find("layers.0.down").master);
  const std::vector<float> rounded = Read(bf16.Find("layers.0.down").master);
  for (size_t i = 0; i < exact.size(); ++i) ASSERT_EQ(rounded[i], RoundToBf16(exact[i]));
}

// CASES, Numbers: rotary angles in BF16 at position 32767 would be off by whole turns.
TEST(Rotary, IsExactAtPosition32767) {
  constexpr int64_t kSequence = 32768;
  const RotaryTables tables = MakeRotaryTables(kSequence, 8, 10000);
  for (int64_t i = 0; i < 4; ++i) {
    const long double angle =
        32767.0L * std::pow(10000.0L, -2.0L * static_cast<long double>(i) / 8);
    const auto at = static_cast<size_t>((kSequence - 1) * 4 + i);
    EXPECT_NEAR(tables.cos[at], static_cast<double>(std::cos(angle)), 0x1p-24) << i;
    EXPECT_NEAR(tables.sin[at], static_cast<double>(std::sin(angle)), 0x1p-24) << i;
  }
  EXPECT_EQ(tables.cos[0], 1.0f);
  EXPECT_EQ(tables.sin[0], 0.0f);
}

}  // namespace
}  // namespace coat
