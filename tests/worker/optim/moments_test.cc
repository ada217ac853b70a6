// Groups of moments: cases that broke others, and the definition of NUMERICS 5 in FP64.
#include "worker/ops/cpu/moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace coat {
namespace {

struct Encoded {
  MomentGroup<uint8_t> codes;
  float a = 0;
  uint16_t k16 = 0;
};

template <typename F>
Encoded Encode(const MomentGroup<float>& x) {
  Encoded e;
  EncodeExpanded<F>(x, &e.codes, &e.a, &e.k16);
  return e;
}

template <typename F>
MomentGroup<float> RoundTrip(const MomentGroup<float>& x) {
  const Encoded e = Encode<F>(x);
  MomentGroup<float> out;
  DecodeExpanded<F>(e.codes, e.a, e.k16, &out);
  return out;
}

MomentGroup<float> LogNormal(uint64_t seed, double sigma) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  MomentGroup<float> x;
  for (float& value : x) {
    const double sign = normal(random) < 0 ? -1 : 1;
    value = static_cast<float>(sign * std::exp(sigma * normal(random)));
  }
  return x;
}

template <typename F>
double WorstRelativeError(const MomentGroup<float>& x) {
  const MomentGroup<float> y = RoundTrip<F>(x);
  double worst = 0;
  for (int i = 0; i < kExpansionGroup; ++i) {
    if (x[i] == 0) {
      EXPECT_EQ(FloatBits(y[i]), 0u) << "zero at " << i;
      continue;
    }
    EXPECT_EQ(std::signbit(x[i]), std::signbit(y[i])) << "sign at " << i;
    EXPECT_NE(y[i], 0.0f) << "flushed at " << i;
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) / x[i] - 1));
  }
  return worst;
}

TEST(MomentsTest, AllZero) {
  MomentGroup<float> x{};
  x[5] = -0.0f;
  const Encoded e = Encode<E4M3>(x);
  EXPECT_EQ(e.a, 0.0f);
  EXPECT_EQ(e.k16, 16);
  for (const uint8_t code : e.codes) EXPECT_EQ(code, 0);
  for (const float y : RoundTrip<E4M3>(x)) EXPECT_EQ(FloatBits(y), 0u);
}

TEST(MomentsTest, ConstantGroupIsExact) {
  for (const float value : {1.0f, 0.3f, 7e-12f, 1e-40f, 0x1p-149f, 3e38f}) {
    MomentGroup<float> x;
    for (int i = 0; i < kExpansionGroup; ++i) x[i] = i % 3 == 0 ? -value : value;
    EXPECT_EQ(Encode<E4M3>(x).k16, 16);
    EXPECT_EQ(RoundTrip<E4M3>(x), x) << value;
    EXPECT_EQ(RoundTrip<E5M2>(x), x) << value;
  }
}

TEST(MomentsTest, OneNonZeroAmongZerosIsExact) {
  for (const int place : {0, 1, 64, 127}) {
    MomentGroup<float> x{};
    x[place] = -0.123f;
    EXPECT_EQ(RoundTrip<E4M3>(x), x);
  }
}

// Zeros change neither a, b nor k: the other elements keep their codes, bit for bit.
TEST(MomentsTest, ZerosDoNotDisturbTheRest) {
  const MomentGroup<float> x = LogNormal(3, 2);
  MomentGroup<float> zero_first = x;
  zero_first[0] = 0;
  MomentGroup<float> with_a_one = x;  // the same group with a harmless value in its first place
  with_a_one[0] = x[1];
  const Encoded got = Encode<E4M3>(zero_first), want = Encode<E4M3>(with_a_one);
  EXPECT_EQ(got.k16, want.k16);
  EXPECT_EQ(got.codes[0], 0);
  EXPECT_EQ(std::memcmp(got.codes.data() + 1, want.codes.data() + 1, kExpansionGroup - 1), 0);

  // Sixty-four zeros between sixty-four values, against the values twice.
  MomentGroup<float> half_zero{}, twice;
  for (int i = 0; i < kExpansionGroup / 2; ++i) {
    half_zero[2 * i] = x[i];
    twice[2 * i] = twice[2 * i + 1] = x[i];
  }
  EXPECT_LE(WorstRelativeError<E4M3>(half_zero), WorstRelativeError<E4M3>(twice));
  EXPECT_LE(WorstRelativeError<E5M2>(half_zero), WorstRelativeError<E5M2>(twice));
}

// k fits the range of the group into the normal and the first subnormal codes, so the relative
// error stays bounded by the coarsest step it can meet: 1/k of half a step of the code. At the
// smallest code, 2^-9 x 2.28, a step is at most 1/2 of the value.
TEST(MomentsTest, WideGroupsKeepSignAndMagnitude) {
  for (const double sigma : {0.5, 2.0, 6.0}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const MomentGroup<float> x = LogNormal(seed, sigma);
      const double inverse_k = 16.0 / Encode<E4M3>(x).k16;
      const double bound = std::pow(1.5, inverse_k) - 1;
      EXPECT_LT(WorstRelativeError<E4M3>(x), bound) << "sigma " << sigma << " seed " << seed;
    }
  }
}

TEST(MomentsTest, SmallestAndLargestNumbersStayFinite) {
  for (const float amax : {1e-40f, 1e-38f, 0x1p-149f, 3.4e38f}) {
    MomentGroup<float> x{};
    for (int i = 0; i < kExpansionGroup; ++i) x[i] = amax / static_cast<float>(1 + i);
    for (const float y : RoundTrip<E4M3>(x)) {
      EXPECT_TRUE(std::isfinite(y));
      EXPECT_LE(std::abs(y), amax);
    }
  }
  // The whole range of FP32 in one group: k = 1/16.
  MomentGroup<float> x{};
  x[0] = 1e38f;
  x[1] = -1e-44f;
  const MomentGroup<float> y = RoundTrip<E4M3>(x);
  EXPECT_EQ(y[0], 1e38f);
  EXPECT_LE(std::abs(y[1]), 1e-30f);
  EXPECT_EQ(Encode<E4M3>(x).codes[1], 0x81);  // the smallest code, sign kept
}

// Codes against the definition with log2 and exp2 in FP64.
template <typename F>
void ExpectCodesOfTheDefinition(double sigma) {
  int64_t different = 0, total = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const MomentGroup<float> x = LogNormal(seed, sigma);
    const Encoded e = Encode<F>(x);
    for (int i = 0; i < kExpansionGroup; ++i) {
      const double q = std::abs(x[i]) / e.a;
      const double y = F::kMaxValue * std::exp2(e.k16 / 16.0 * std::log2(q));
      int want = Fp8Encode<F>(static_cast<float>(y));
      want = std::max(want, 1);
      const int got = e.codes[i] & 0x7F;
      ASSERT_LE(std::abs(got - want), 1) << "x " << x[i] << " a " << e.a << " k16 " << e.k16;
      different += got != want;
      total += 1;
    }
  }
  // NUMERICS 6 allows 1e-3 between backends; FP32 here moves y by at most 4e-6 of itself, a code
  // is at least 1/32 wide.
  EXPECT_LE(different, static_cast<int64_t>(total * 2 * 4e-6 * 32));
}

TEST(MomentsTest, CodesFollowTheDefinition) {
  for (const double sigma : {0.1, 1.0, 2.0, 5.0}) {
    ExpectCodesOfTheDefinition<E4M3>(sigma);
    ExpectCodesOfTheDefinition<E5M2>(sigma);
  }
}

TEST(MomentsTest, DecodeFollowsTheDefinition) {
  double worst = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Encoded e = Encode<E4M3>(LogNormal(seed, 2));
    MomentGroup<float> got;
    DecodeExpanded<E4M3>(e.codes, e.a, e.k16, &got);
    for (int i = 0; i < kExpansionGroup; ++i) {
      const double code = Fp8Decode<E4M3>(e.codes[i]);
      const double want = std::copysign(e.a * std::pow(std::abs(code) / 448.0, 16.0 / e.k16), code);
      worst = std::max(worst, std::abs(got[i] / want - 1));
    }
  }
  // exp2's argument is below 32 with an error of three roundings, then exp2 itself and a product.
  EXPECT_LT(worst, 32 * 3 * 0x1p-24 * std::log(2.0) + 3 * 0x1p-24);
}

TEST(MomentsTest, PlainIsTheQuantizerAndKeepsNonZero) {
  MomentGroup<float> x{};
  x[0] = 896.0f;
  x[1] = -1.0f;
  x[2] = 1e-6f;
  x[3] = -1e-6f;
  MomentGroup<uint8_t> codes;
  float scale = 0;
  EncodePlain<E4M3>(x, &codes, &scale);
  EXPECT_EQ(scale, 2.0f);
  EXPECT_EQ(codes[0], 0x7E);
  EXPECT_EQ(codes[1], Fp8Encode<E4M3>(-0.5f));
  EXPECT_EQ(codes[2] & 0x7F, 0);
  KeepNonZero(x, &codes);
  EXPECT_EQ(codes[0], 0x7E);
  EXPECT_EQ(codes[2], 0x01);
  EXPECT_EQ(codes[3], 0x81);
  EXPECT_EQ(codes[4], 0x00);
}

}  // namespace
}  // namespace coat
