#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class SumTest : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Devices, SumTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

TEST_P(SumTest, AddsToTheOutput) {
  for (int64_t count : {1, 16, 17, 255, 256, 257, 1000, 100000}) {
    const std::vector<float> x = Normal(count, 1.0, 1);
    const Tensor out = PutScalar(2.0f);
    ops().Sum({Put(DType::kF32, {count}, x), out});
    double want = 2, magnitude = 2;
    for (float value : x) {
      want += value;
      magnitude += std::fabs(value);
    }
    EXPECT_NEAR(Get(out)[0], want, 40 * 0x1p-24 * magnitude) << count;
  }
}

TEST_P(SumTest, ManyEqualValuesDoNotStall) {
  const Tensor out = PutScalar(0.0f);
  ops().Sum({Put(DType::kF32, {1 << 21}, std::vector<float>(1 << 21, 0.1f)), out});
  EXPECT_NEAR(Get(out)[0], (1 << 21) * static_cast<double>(0.1f), 0.5);
}

TEST_P(SumTest, NanWins) {
  std::vector<float> x(1000, 1.0f);
  x[777] = NAN;
  const Tensor out = PutScalar(0.0f);
  ops().Sum({Put(DType::kF32, {1000}, x), out});
  EXPECT_TRUE(std::isnan(Get(out)[0]));
}

}  // namespace
}  // namespace coat
