#include "configs/base/units.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

TEST(UnitsTest, ReadsDurations) {
  EXPECT_EQ(*ParseDurationMs("30m"), 1'800'000);
  EXPECT_EQ(*ParseDurationMs("1h30m"), 5'400'000);
  EXPECT_EQ(*ParseDurationMs("1.5s"), 1500);
  EXPECT_EQ(*ParseDurationMs("250ms"), 250);
  EXPECT_EQ(*ParseDurationMs("2d"), 172'800'000);
}

TEST(UnitsTest, RefusesDurationsWithoutAUnit) {
  for (const char* text :
       {"", "30", "m", "30 m", "-5s", "1.2.3s", "5w", "1h30", "1e3s", "999999999999999d"}) {
    const auto parsed = ParseDurationMs(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(parsed.status().message().find(text), std::string::npos) << text;
  }
}

TEST(UnitsTest, ShowsBytesDurationsAndCounts) {
  EXPECT_EQ(FormatBytes(312), "312 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(3 * kGiB), "3.0 GiB");
  EXPECT_EQ(FormatDurationMs(12), "12ms");
  EXPECT_EQ(FormatDurationMs(4200), "4.2s");
  EXPECT_EQ(FormatDurationMs(185'000), "3m05s");
  EXPECT_EQ(FormatDurationMs(3'720'000), "1h02m");
  EXPECT_EQ(FormatCount(1048576), "1,048,576");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(999), "999");
}

TEST(UnitsTest, Rounds) {
  EXPECT_EQ(RoundUp(1, 256), 256);
  EXPECT_EQ(RoundUp(256, 256), 256);
  EXPECT_EQ(CeilDiv(7, 2), 4);
  EXPECT_EQ(CeilDiv(8, 2), 4);
}

}  // namespace
}  // namespace coat
