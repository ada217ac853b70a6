#include "client/render/progress.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

const Progress kHalf{.step = 600,
                     .steps = 1200,
                     .loss = 2.34567,
                     .tokens_per_second = 12345.6,
                     .seconds_per_step = 0.1};

TEST(ProgressTest, ShowsStepLossSpeedAndTimeLeft) {
  EXPECT_EQ(ProgressText(kHalf), "step 600/1,200, loss 2.3457, 12,346 tok/s, 1m00s left");
  EXPECT_EQ(ProgressText({.step = 0, .steps = 5, .loss = {}}), "step 0/5");
}

TEST(ProgressTest, TheBarFillsWhatTheTextLeaves) {
  const Terminal wide{.kind = Terminal::Kind::kScreen, .columns = 100};
  EXPECT_EQ(ProgressLine(kHalf, wide),
            "[###############...............] 600/1,200  loss 2.3457  12,346 tok/s  1m00s left");
  for (int columns = 1; columns < 120; ++columns) {
    const Terminal terminal{.kind = Terminal::Kind::kScreen, .columns = columns};
    EXPECT_LT(TextWidth(ProgressLine(kHalf, terminal)), std::max(columns, 4)) << columns;
  }
}

TEST(ProgressTest, StrangeValuesStayInTheBar) {
  const Terminal terminal{.kind = Terminal::Kind::kScreen, .columns = 60};
  EXPECT_EQ(ProgressLine({.step = 9, .steps = 0, .loss = {}}, terminal),
            "[..............................] 9/0");
  EXPECT_EQ(ProgressLine({.step = 9, .steps = 3, .loss = {}}, terminal),
            "[##############################] 9/3");
}

TEST(ProgressTest, UnicodeBar) {
  const Terminal terminal{
      .kind = Terminal::Kind::kScreen, .charset = Terminal::Charset::kUtf8, .columns = 20};
  EXPECT_EQ(ProgressLine({.step = 1, .steps = 2, .loss = {}}, terminal),
            "[\xE2\x96\x88\xE2\x96\x88\xE2\x96\x88\xE2\x96\x88\xE2\x96\x88\xE2\x96\x88"
            "\xE2\x96\x91\xE2\x96\x91\xE2\x96\x91\xE2\x96\x91\xE2\x96\x91\xE2\x96\x91"
            "\xE2\x96\x91] 1/2");
}

}  // namespace
}  // namespace coat
