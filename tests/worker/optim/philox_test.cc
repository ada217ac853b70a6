#include "worker/ops/cpu/philox.h"

#include <gtest/gtest.h>

#include <array>

namespace coat {
namespace {

void ExpectWords(const PhiloxBlock& got, const std::array<uint32_t, 4>& want) {
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got.word[i], want[i]) << "word " << i;
}

// Known answers of philox4x32-10, published with Random123.
TEST(PhiloxTest, KnownAnswers) {
  ExpectWords(Philox({{0, 0, 0, 0}}, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  ExpectWords(Philox({{~0u, ~0u, ~0u, ~0u}}, ~0ull),
              {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  ExpectWords(Philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ull),
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(PhiloxTest, RoundingWordsUseBlockTensorAndStep) {
  const int64_t block = (int64_t{5} << 32) + 7;
  const PhiloxBlock want = Philox({{7, 5, 3, 11}}, 42);
  const PhiloxBlock got = RoundingWords(42, block, 3, 11);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], want.word[i]);
}

// Over all 2^16 random words, exactly as many round up as the dropped bits say.
TEST(PhiloxTest, StochasticRoundingIsUnbiased) {
  for (const uint32_t bits : {0x3F800001u, 0x3F80FFFFu, 0xBF808000u, 0x00000123u, 0x42280000u}) {
    const float x = BitsFloat(bits);
    uint32_t up = 0;
    for (uint32_t random = 0; random < 0x10000u; ++random) {
      const uint16_t rounded = StochasticBf16(x, random | 0xABCD0000u);
      const uint32_t steps = rounded - (bits >> 16);
      ASSERT_LE(steps, 1u);
      up += steps;
    }
    EXPECT_EQ(up, bits & 0xFFFFu) << "x = " << x;
  }
}

}  // namespace
}  // namespace coat
