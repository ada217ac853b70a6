#include "worker/precision/expansion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace coat {
namespace {

TEST(ExpansionTest, PreciseLog2) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-600, 600);
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    // Every other value lies close to 1, where the relative error is hardest.
    const double x = i % 2 == 0 ? std::exp2(exponent(random)) : 1.0 + exponent(random) * 1e-5;
    const long double want = std::log2(static_cast<long double>(x));
    if (want == 0) continue;
    const double error = std::abs(static_cast<double>((PreciseLog2(x) - want) / want));
    worst = std::max(worst, error);
  }
  EXPECT_LT(worst, 0x1p-50);
  EXPECT_EQ(PreciseLog2(1.0), 0.0);
  EXPECT_EQ(PreciseLog2(1024.0), 10.0);
}

TEST(ExpansionTest, FastLog2) {
  double worst = 0;
  for (uint32_t mantissa = 0; mantissa < (1u << 23); mantissa += 5) {
    for (const uint32_t exponent : {126u, 127u}) {  // [0.5, 2)
      const float x = BitsFloat((exponent << 23) | mantissa);
      const double want = std::log2(static_cast<double>(x));
      if (want == 0) continue;
      worst = std::max(worst, std::abs((FastLog2(x) - want) / want));
    }
  }
  // The polynomial, the product with f, the sum with the exponent.
  EXPECT_LT(worst, 1.4e-7 + 0x1p-24);
  for (int exponent = -149; exponent <= 0; ++exponent) {
    EXPECT_EQ(FastLog2(std::ldexp(1.0f, exponent)), static_cast<float>(exponent));
  }
}

TEST(ExpansionTest, FastExp2) {
  double worst = 0;
  for (int i = 0; i <= 2'000'000; ++i) {
    const float z = -125.0f + 1.25e-4f * static_cast<float>(i);
    const double want = std::exp2(static_cast<double>(z));
    worst = std::max(worst, std::abs(FastExp2(z) / want - 1));
  }
  EXPECT_LT(worst, 1.1e-7);
  for (int z = -125; z <= 125; ++z) EXPECT_EQ(FastExp2(static_cast<float>(z)), std::ldexp(1.0f, z));
}

template <typename F>
void ExpectTableOfCodes() {
  for (uint32_t code = 1; code <= F::kMaxCode; ++code) {
    const double ratio = Fp8Decode<F>(static_cast<uint8_t>(code)) / double{F::kMaxValue};
    EXPECT_EQ(kExpansionTable<F>.log2_ratio[code], static_cast<float>(std::log2(ratio))) << code;
  }
  EXPECT_EQ(kExpansionTable<F>.log2_ratio[F::kMaxCode], 0.0f);
}

TEST(ExpansionTest, TableHoldsLog2OfCodes) {
  ExpectTableOfCodes<E4M3>();
  ExpectTableOfCodes<E5M2>();
}

// Rule 3 with 64-bit mantissas. A difference is only possible where the quotient is within FP64's
// error of an integer, which no random pair is.
template <typename F>
void ExpectK16ByTheRule() {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> log_a(-149, 127), log_ratio(-24, 8);
  const long double range =
      16 * std::log2(static_cast<long double>(F::kMaxValue) * F::kMaxValue / 2);
  int below_one = 0, clamped = 0;
  for (int i = 0; i < 100'000; ++i) {
    const float a = static_cast<float>(std::exp2(log_a(random)));
    const float b = static_cast<float>(a / std::exp2(std::exp2(log_ratio(random))));
    if (b == 0 || a == b) continue;
    const long double quotient =
        range / std::log2(static_cast<long double>(a) / static_cast<long double>(b));
    const auto want = static_cast<uint16_t>(std::clamp(std::floor(quotient), 1.0L, 1024.0L));
    ASSERT_EQ(ExpansionK16<F>(a, b), want) << "a " << a << " b " << b;
    below_one += want < 16;
    clamped += want == 1024;
  }
  EXPECT_GT(below_one, 1000);
  EXPECT_GT(clamped, 1000);
}

TEST(ExpansionTest, K16FollowsTheRule) {
  ExpectK16ByTheRule<E4M3>();
  ExpectK16ByTheRule<E5M2>();
  EXPECT_EQ(ExpansionK16<E4M3>(3.0f, 3.0f), 16);
  // log2(448^2 / 2) = 16.6147: a / b = 2^16 gives floor(16.61) = 16, k just above 1.
  EXPECT_EQ(ExpansionK16<E4M3>(65536.0f, 1.0f), 16);
  EXPECT_EQ(ExpansionK16<E4M3>(2.0f, 1.0f), 265);
  EXPECT_EQ(ExpansionK16<E4M3>(0x1p127f, 0x1p-149f), 1);  // 16 16.6147 / 276 < 1
}

// Where both decoders are valid they give the same bits.
TEST(ExpansionTest, WideDecodeAgreesWithDecode) {
  for (uint32_t k16 = 3; k16 <= 1024; ++k16) {
    const float inverse_k = 16.0f / static_cast<float>(k16);
    ASSERT_FALSE(ExpansionIsWide<E4M3>(inverse_k));
    for (uint32_t code = 0; code < 256; ++code) {
      if ((code & 0x7Fu) == 0x7Fu) continue;
      const float ratio = kExpansionTable<E4M3>.log2_ratio[code & 0x7Fu];
      for (const float a : {1.0f, 3.3e-5f, 1e-39f, 0x1p-149f, 3e38f}) {
        const float x = ExpansionDecode(code, ratio, a, inverse_k);
        ASSERT_EQ(FloatBits(x), FloatBits(ExpansionDecodeWide(code, ratio, a, inverse_k)))
            << "code " << code << " k16 " << k16 << " a " << a;
      }
    }
  }
  EXPECT_TRUE(ExpansionIsWide<E4M3>(16.0f));
  EXPECT_TRUE(ExpansionIsWide<E5M2>(4.0f));
}

}  // namespace
}  // namespace coat
