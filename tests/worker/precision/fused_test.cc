#include "worker/precision/fused.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ops_reference.h"

namespace coat {
namespace {

// Distance of a float to a real number, in units of the float's last place.
double UlpError(float got, double want) {
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 24);
}

TEST(ExpTest, IsWithinItsBoundEverywhere) {
  double worst = 0;
  float place = 0;
  for (double x = -86.6; x <= 88.72; x += 3.7e-4) {
    const float argument = static_cast<float>(x);
    const double error = UlpError(Exp(argument), std::exp(static_cast<double>(argument)));
    if (error > worst) {
      worst = error;
      place = argument;
    }
  }
  EXPECT_LE(worst, 1.1) << "at " << place;
}

TEST(ExpTest, Ends) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(-87.0f), 0.0f);
  EXPECT_EQ(Exp(-INFINITY), 0.0f);
  EXPECT_EQ(Exp(89.0f), INFINITY);
  EXPECT_EQ(Exp(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(Exp(NAN)));
  EXPECT_TRUE(std::isfinite(Exp(88.72f)));
}

TEST(SwigluTest, MatchesTheDefinition) {
  const std::vector<float> gate = Normal(5000, 8.0, 1), up = Normal(5000, 2.0, 2);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i], want = g / (1 + std::exp(-g)) * up[i];
    ASSERT_NEAR(SwigluValue(gate[i], up[i]), want, std::fabs(want) * 0x1p-21) << g;
  }
}

TEST(SwigluTest, LargeGatesStayFinite) {
  EXPECT_EQ(SwigluValue(-1000.0f, 3.0f), 0.0f);
  EXPECT_EQ(SwigluValue(1000.0f, 3.0f), 3000.0f);
  const SwigluGradient low = SwigluBackwardValue(-1000.0f, 3.0f, 1.0f);
  EXPECT_EQ(low.gate, 0.0f);
  EXPECT_EQ(low.up, 0.0f);
  const SwigluGradient high = SwigluBackwardValue(1000.0f, 3.0f, 1.0f);
  EXPECT_EQ(high.gate, 3.0f);
  EXPECT_EQ(high.up, 1000.0f);
}

TEST(SwigluTest, GradientAgreesWithFiniteDifferences) {
  const std::vector<float> values = Normal(300, 3.0, 5);
  const auto f = [](const std::vector<double>& x) {
    return x[0] / (1 + std::exp(-x[0])) * x[1] * x[2];
  };
  for (size_t i = 0; i + 3 <= values.size(); i += 3) {
    const std::vector<double> x = {values[i], values[i + 1], values[i + 2]};
    const SwigluGradient got = SwigluBackwardValue(values[i], values[i + 1], values[i + 2]);
    EXPECT_NEAR(got.gate, CentralDifference(f, x, 0), 1e-5 * (1 + std::fabs(x[1] * x[2])));
    EXPECT_NEAR(got.up, CentralDifference(f, x, 1), 1e-5 * (1 + std::fabs(x[0] * x[2])));
  }
}

TEST(RopeTest, RotatesAndBack) {
  const RopePair x{0.75f, -2.5f};
  const float cos = std::cos(1.1f), sin = std::sin(1.1f);
  const RopePair y = Rotate(x, cos, sin);
  EXPECT_NEAR(y.first, 0.75 * cos + 2.5 * sin, 1e-6);
  EXPECT_NEAR(y.second, -2.5 * cos + 0.75 * sin, 1e-6);
  const RopePair back = Rotate(y, cos, -sin);
  EXPECT_NEAR(back.first, x.first, 1e-6);
  EXPECT_NEAR(back.second, x.second, 1e-6);
}

}  // namespace
}  // namespace coat
