#include "client/render/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace coat {
namespace {

TEST(PlotTest, DrawsAFallingCurve) {
  std::vector<PlotPoint> points;
  for (int step = 1; step <= 21; ++step) {
    points.push_back({static_cast<double>(step), 5.0 - 0.2 * (step - 1)});
  }
  EXPECT_EQ(DrawPlot(points, "Loss", "steps",
                     {.columns = 31, .rows = 5, .charset = Terminal::Charset::kAscii}),
            "Loss\n"
            "   5.000 |***\n"
            "         |   *****\n"
            "         |        *****\n"
            "         |             *****\n"
            "   1.000 |                  ***\n"
            "          1            21 steps\n");
}

TEST(PlotTest, JoinsSteepSteps) {
  const std::string text =
      DrawPlot({{0, 10}, {1, 0}}, "t", "x",
               {.columns = 24, .rows = 6, .charset = Terminal::Charset::kAscii});
  int rows_with_a_dot = 0;
  size_t start = text.find('\n') + 1;
  for (int row = 0; row < 6; ++row) {
    const size_t end = text.find('\n', start);
    if (text.substr(start, end - start).find('*') != std::string::npos) ++rows_with_a_dot;
    start = end + 1;
  }
  EXPECT_EQ(rows_with_a_dot, 6) << text;
}

TEST(PlotTest, LeavesOutWhatIsNotFinite) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(DrawPlot({{1, nan}, {2, inf}}, "t", "x", {}), "");
  EXPECT_EQ(DrawPlot({}, "t", "x", {}), "");
  const PlotOptions options{.columns = 24, .rows = 3, .charset = Terminal::Charset::kAscii};
  EXPECT_EQ(DrawPlot({{1, 3}, {2, nan}, {3, 1}}, "t", "x", options),
            DrawPlot({{1, 3}, {3, 1}}, "t", "x", options));
}

TEST(PlotTest, OnePointAndAFlatCurveAreDrawn) {
  const PlotOptions options{.columns = 24, .rows = 3, .charset = Terminal::Charset::kAscii};
  EXPECT_NE(DrawPlot({{5, 2}}, "t", "x", options).find('*'), std::string::npos);
  EXPECT_NE(DrawPlot({{5, 2}, {6, 2}}, "t", "x", options).find("**********"), std::string::npos);
}

TEST(PlotTest, BrailleCellsHoldEightDots) {
  const std::string text = DrawPlot(
      {{0, 1}, {1, 0}}, "t", "x", {.columns = 24, .rows = 3, .charset = Terminal::Charset::kUtf8});
  EXPECT_NE(text.find("\xE2\xA0"), std::string::npos) << text;
  EXPECT_EQ(text.find('*'), std::string::npos) << text;
}

TEST(PlotTest, SmallSizesAreRaisedToTheLeast) {
  EXPECT_NE(DrawPlot({{0, 1}, {1, 0}}, "t", "x", {.columns = 1, .rows = 0}), "");
}

}  // namespace
}  // namespace coat
