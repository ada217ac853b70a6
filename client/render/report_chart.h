// Charts of the report as inline SVG with labels in HTML, so that text keeps its size on a phone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/render/plot.h"

namespace coat {

struct ChartSeries {
  enum class Mark : uint8_t { kLine, kDashed, kPoints, kArea };
  std::string name;
  Mark mark = Mark::kLine;
  int colour = 0;                 // 0..7, of the page's palette
  std::vector<PlotPoint> points;  // ascending x; what is not finite is left out
  std::vector<double> base = {};  // of kArea: the lower edge at each point
};

struct Chart {
  std::string title;    // text; the accessible name, too
  std::string summary;  // one sentence that says what the picture shows
  std::string x_label = "step";
  std::function<std::string(double)> format_y;
  enum class Scale : uint8_t { kRange, kFromZero, kLog };
  Scale scale = Scale::kRange;
  std::vector<ChartSeries> series;
};

// A figure; a sentence instead when no series has a finite point.
std::string ChartHtml(const Chart& chart);

// At most `most` points: means over ranges of x of equal length.
std::vector<PlotPoint> Thin(const std::vector<PlotPoint>& points, int most);

struct ChartBar {
  std::string label;
  std::string value;  // as text
  double share = 0;   // of the tallest, 0..1
};
// Columns side by side.
std::string BarsHtml(const std::string& title, const std::string& summary, int colour,
                     const std::vector<ChartBar>& bars);

}  // namespace coat
