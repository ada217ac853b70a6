#include "worker/precision/bf16.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ops_reference.h"

namespace coat {
namespace {

TEST(Bf16Test, EveryBf16ValueSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FloatFromBf16(static_cast<uint16_t>(bits));
    const uint16_t back = Bf16FromFloat(value);
    if (std::isnan(value)) {
      EXPECT_EQ(back, 0x7FFF);
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(Bf16Test, TiesGoToTheEvenNeighbour) {
  for (uint32_t bits = 0; bits < 0x7F7F; ++bits) {
    const float tie = BitsFloat((bits << 16) | 0x8000u);
    ASSERT_EQ(Bf16FromFloat(tie), bits + (bits & 1u));
    ASSERT_EQ(Bf16FromFloat(BitsFloat((bits << 16) | 0x7FFFu)), bits);
    ASSERT_EQ(Bf16FromFloat(BitsFloat((bits << 16) | 0x8001u)), bits + 1);
    ASSERT_EQ(Bf16FromFloat(-tie), (bits + (bits & 1u)) | 0x8000u);
  }
}

TEST(Bf16Test, OverflowAndSpecialValues) {
  EXPECT_EQ(Bf16FromFloat(0x1.fep127f), 0x7F7F);
  EXPECT_EQ(Bf16FromFloat(0x1.ffp127f), 0x7F80);
  EXPECT_EQ(Bf16FromFloat(INFINITY), 0x7F80);
  EXPECT_EQ(Bf16FromFloat(-INFINITY), 0xFF80);
  EXPECT_EQ(Bf16FromFloat(BitsFloat(0x7F800001u)), 0x7FFF);
  EXPECT_EQ(Bf16FromFloat(BitsFloat(0xFFFFFFFFu)), 0x7FFF);
  EXPECT_EQ(Bf16FromFloat(-0.0f), 0x8000);
}

TEST(Bf16Test, AgreesWithTheDefinition) {
  for (float x : Normal(20000, 3.0, 1)) {
    ASSERT_EQ(RoundToBf16(x), static_cast<float>(NearestBf16(x))) << x;
  }
}

}  // namespace
}  // namespace coat
