#include "worker/precision/fp8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ops_reference.h"

namespace coat {
namespace {

template <typename F>
constexpr DType TypeOf();
template <>
constexpr DType TypeOf<E4M3>() {
  return DType::kE4M3;
}
template <>
constexpr DType TypeOf<E5M2>() {
  return DType::kE5M2;
}

template <typename F>
class Fp8Test : public ::testing::Test {};
using Formats = ::testing::Types<E4M3, E5M2>;
TYPED_TEST_SUITE(Fp8Test, Formats);

TYPED_TEST(Fp8Test, DecodesEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float got = Fp8Decode<TypeParam>(static_cast<uint8_t>(code));
    const double want = CodeValue(TypeOf<TypeParam>(), static_cast<uint8_t>(code));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << code;
    } else {
      EXPECT_EQ(got, want) << code;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << code;
    }
  }
}

TYPED_TEST(Fp8Test, EveryFiniteCodeSurvives) {
  for (int code = 0; code < 256; ++code) {
    const float value = Fp8Decode<TypeParam>(static_cast<uint8_t>(code));
    const int want = std::isfinite(value) ? code : 0x7F;
    EXPECT_EQ(Fp8Encode<TypeParam>(value), want) << code;
  }
}

TYPED_TEST(Fp8Test, EveryBf16ValueGoesToTheNearestCode) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FloatFromBf16(static_cast<uint16_t>(bits));
    ASSERT_EQ(Fp8Encode<TypeParam>(value), NearestCode(TypeOf<TypeParam>(), value)) << value;
  }
}

TYPED_TEST(Fp8Test, TiesAndTheirNeighbours) {
  const Fp8Format format = FormatOf(TypeOf<TypeParam>());
  for (int code = 0; code < format.max_code; ++code) {
    const float tie =
        static_cast<float>((CodeMagnitude(format, code) + CodeMagnitude(format, code + 1)) / 2);
    const int even = code + code % 2;
    EXPECT_EQ(Fp8Encode<TypeParam>(tie), even) << code;
    EXPECT_EQ(Fp8Encode<TypeParam>(-tie), even | 0x80) << code;
    EXPECT_EQ(Fp8Encode<TypeParam>(std::nextafterf(tie, 0)), code) << code;
    EXPECT_EQ(Fp8Encode<TypeParam>(std::nextafterf(tie, INFINITY)), code + 1) << code;
  }
}

TYPED_TEST(Fp8Test, SaturatesAndMarksWhatIsNotFinite) {
  const int max_code = FormatOf(TypeOf<TypeParam>()).max_code;
  EXPECT_EQ(Fp8Encode<TypeParam>(TypeParam::kMaxValue * 1.001f), max_code);
  EXPECT_EQ(Fp8Encode<TypeParam>(3.4e38f), max_code);
  EXPECT_EQ(Fp8Encode<TypeParam>(-3.4e38f), max_code | 0x80);
  EXPECT_EQ(Fp8Encode<TypeParam>(INFINITY), 0x7F);
  EXPECT_EQ(Fp8Encode<TypeParam>(-INFINITY), 0x7F);
  EXPECT_EQ(Fp8Encode<TypeParam>(BitsFloat(0xFFC00000u)), 0x7F);
}

TYPED_TEST(Fp8Test, TinyValuesBecomeSignedZero) {
  EXPECT_EQ(Fp8Encode<TypeParam>(0x1p-149f), 0x00);
  EXPECT_EQ(Fp8Encode<TypeParam>(-0x1p-149f), 0x80);
  EXPECT_EQ(Fp8Encode<TypeParam>(0.0f), 0x00);
  EXPECT_EQ(Fp8Encode<TypeParam>(-0.0f), 0x80);
}

TYPED_TEST(Fp8Test, ScaleRules) {
  EXPECT_EQ(TensorScale<TypeParam>(0.0f), 1.0f);
  EXPECT_EQ(TensorScale<TypeParam>(INFINITY), 1.0f);
  EXPECT_EQ(TensorScale<TypeParam>(BitsFloat(0x7FC00000u)), 1.0f);
  EXPECT_EQ(TensorScale<TypeParam>(TypeParam::kMaxValue), 1.0f);
  EXPECT_EQ(TensorScale<TypeParam>(3.0f), 3.0f / TypeParam::kMaxValue);
  for (float amax : {0x1p-149f, 1e-40f, 1e-38f}) {
    EXPECT_EQ(TensorScale<TypeParam>(amax), 0x1p-126f) << amax;
  }
  EXPECT_EQ(TensorScale<TypeParam>(0x1p-100f), 0x1p-100f / TypeParam::kMaxValue);
}

// amax of 1e-40, 1e-38, 2^-149: scale and decoded values stay finite, the error stays below half
// a step of the format.
TYPED_TEST(Fp8Test, SmallestAmaxRoundTrips) {
  for (float amax : {0x1p-149f, 1e-40f, 1e-38f, 1e-30f, 3.4e38f}) {
    const float scale = TensorScale<TypeParam>(amax);
    const float inverse = InverseScale(scale);
    ASSERT_TRUE(std::isfinite(inverse));
    const float back = Fp8Decode<TypeParam>(Fp8Encode<TypeParam>(amax * inverse)) * scale;
    ASSERT_TRUE(std::isfinite(back)) << amax;
    EXPECT_LE(std::fabs(back - amax), std::max(amax * 0x1p-3f, 0x1p-126f * 0x1p-9f)) << amax;
  }
}

TEST(GroupScaleTest, IsTheScaleRoundedToBf16) {
  EXPECT_EQ(GroupScale(0.0f), 0x3F80);
  EXPECT_EQ(GroupScale(1e-40f), Bf16FromFloat(0x1p-126f));
  for (float amax : Normal(2000, 10.0, 3)) {
    const float magnitude = std::fabs(amax);
    EXPECT_EQ(FloatFromBf16(GroupScale(magnitude)),
              static_cast<float>(NearestBf16(magnitude / 448.0f)));
  }
}

}  // namespace
}  // namespace coat
