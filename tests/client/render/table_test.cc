#include "client/render/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/render/terminal.h"
#include "configs/base/error.h"

namespace coat {
namespace {

TEST(TableTest, AlignsColumnsAndLeavesNoSpaceAtTheEnd) {
  Table table({{"NAME", Align::kLeft}, {"STEP", Align::kRight}, {"NOTE", Align::kLeft}});
  table.Add({"a", "1", ""});
  table.Add({"m\xC3\xBCller", "12345", "ok"});
  EXPECT_EQ(table.ToString(),
            "NAME     STEP  NOTE\n"
            "a           1\n"
            "m\xC3\xBCller  12345  ok\n");
}

TEST(TableTest, ControlCharactersNeverReachTheTerminal) {
  Table table({{"NAME", Align::kLeft}});
  table.Add({"a\x1b[31mred\n"});
  EXPECT_EQ(table.ToString(), "NAME\na?[31mred?\n");
}

TEST(TableTest, RowsOfAnotherLengthAreABug) {
  Table table({{"NAME", Align::kLeft}});
  EXPECT_THROW(table.Add({"a", "b"}), Error);
}

TEST(TerminalTest, FitsTexts) {
  EXPECT_EQ(Fit("abcdef", 6), "abcdef");
  EXPECT_EQ(Fit("abcdefg", 6), "abc...");
  EXPECT_EQ(Fit("\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC", 4), "\xC3\xBC...");
  EXPECT_EQ(TextWidth("\xE6\xBC\xA2"), 1);
}

TEST(TerminalTest, FormatsValues) {
  EXPECT_EQ(FormatAge(-5), "0s");
  EXPECT_EQ(FormatAge(119), "119s");
  EXPECT_EQ(FormatAge(600), "10m");
  EXPECT_EQ(FormatAge(3 * 3600), "3h");
  EXPECT_EQ(FormatAge(3 * 86400), "3d");
  EXPECT_EQ(FormatReal(2.34567, 4), "2.3457");
  EXPECT_EQ(FormatReal(0.0000012, 4), "1.20e-06");
  EXPECT_EQ(FormatReal(0, 4), "0.0000");
  EXPECT_EQ(FormatReal(std::nan(""), 4), "nan");
  EXPECT_EQ(FormatReal(-std::numeric_limits<double>::infinity(), 4), "-inf");
  EXPECT_EQ(FormatTime(1769860800), "2026-01-31 12:00:00Z");
  EXPECT_EQ(FormatTime(0), "-");
  EXPECT_EQ(FormatRate(12345.4), "12,345");
  EXPECT_EQ(FormatRate(std::nan("")), "-");
}

}  // namespace
}  // namespace coat
