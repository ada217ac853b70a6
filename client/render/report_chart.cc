#include "client/render/report_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/render/report_html.h"
#include "configs/base/units.h"

namespace coat {
namespace {

constexpr double kWidth = 1000, kHeight = 400;  // of the viewBox; stretched by the page

struct Frame {
  double x_low = 0, x_high = 0, y_low = 0, y_high = 0;
  bool log = false;

  double Y(double value) const { return log ? std::log10(value) : value; }
  double Across(double x) const { return x_high > x_low ? (x - x_low) / (x_high - x_low) : 0.5; }
  double Down(double y) const { return y_high > y_low ? (y_high - Y(y)) / (y_high - y_low) : 0.5; }
};

bool Drawn(const PlotPoint& point, bool log) {
  return std::isfinite(point.x) && std::isfinite(point.y) && (!log || point.y > 0);
}

// False when nothing can be drawn.
bool Measure(const Chart& chart, Frame* frame) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  frame->log = chart.scale == Chart::Scale::kLog;
  frame->x_low = frame->y_low = kInfinity;
  frame->x_high = frame->y_high = -kInfinity;
  for (const ChartSeries& series : chart.series) {
    for (const PlotPoint& point : series.points) {
      if (!Drawn(point, frame->log)) continue;
      frame->x_low = std::min(frame->x_low, point.x);
      frame->x_high = std::max(frame->x_high, point.x);
      frame->y_low = std::min(frame->y_low, frame->Y(point.y));
      frame->y_high = std::max(frame->y_high, frame->Y(point.y));
    }
  }
  if (frame->x_high < frame->x_low) return false;
  if (chart.scale == Chart::Scale::kFromZero) frame->y_low = std::min(0.0, frame->y_low);
  const double margin = (frame->y_high - frame->y_low) * 0.04;
  frame->y_high += margin;
  if (chart.scale != Chart::Scale::kFromZero) frame->y_low -= margin;
  return true;
}

std::string At(const Frame& frame, double x, double y) {
  return Number(frame.Across(x) * kWidth) + " " + Number(frame.Down(y) * kHeight);
}

std::string Path(const Frame& frame, const ChartSeries& series) {
  const bool points = series.mark == ChartSeries::Mark::kPoints;
  std::string path, back;
  for (size_t i = 0; i < series.points.size(); ++i) {
    const PlotPoint& point = series.points[i];
    if (!Drawn(point, frame.log)) continue;
    const std::string at = At(frame, point.x, point.y);
    // A line of no length with round ends is a dot that stays round when the drawing stretches.
    path += points ? "M" + at + "h0" : (path.empty() ? "M" : "L") + at;
    if (i < series.base.size()) back.insert(0, "L" + At(frame, point.x, series.base[i]));
  }
  return path + back + (back.empty() ? "" : "Z");
}

std::string SeriesHtml(const Frame& frame, const ChartSeries& series) {
  static constexpr const char* kClasses[] = {"line", "line dash", "dots", "area"};
  return "<path class=\"" + std::string(kClasses[static_cast<size_t>(series.mark)]) + " c" +
         std::to_string(series.colour) + "\" d=\"" + Path(frame, series) + "\"></path>";
}

std::string LegendHtml(const Chart& chart) {
  static constexpr const char* kClasses[] = {"line", "dash", "dot", "box"};
  std::string items;
  for (const ChartSeries& series : chart.series) {
    if (series.points.empty()) continue;
    const std::string swatch =
        Element("span",
                "class=\"key " + std::string(kClasses[static_cast<size_t>(series.mark)]) + " c" +
                    std::to_string(series.colour) + "\" aria-hidden=\"true\"",
                "");
    items += Element("li", "", swatch + Escape(series.name));
  }
  return Element("ul", "class=\"legend\"", items);
}

std::string Place(const char* side, double share, const std::string& text) {
  return Element("span", std::string("style=\"") + side + ":" + Number(100 * share) + "%\"",
                 Escape(text));
}

}  // namespace

std::vector<PlotPoint> Thin(const std::vector<PlotPoint>& points, int most) {
  if (points.size() <= static_cast<size_t>(most)) return points;
  const double low = points.front().x, span = points.back().x - low;
  std::vector<PlotPoint> sums(static_cast<size_t>(most));
  std::vector<int> counts(sums.size(), 0);
  for (const PlotPoint& point : points) {
    if (!std::isfinite(point.y)) continue;
    const double share = span > 0 ? (point.x - low) / span : 0;
    const auto bin = std::min(sums.size() - 1, static_cast<size_t>(share * most));
    sums[bin].x += point.x;
    sums[bin].y += point.y;
    ++counts[bin];
  }
  std::vector<PlotPoint> thinned;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] > 0) thinned.push_back({sums[i].x / counts[i], sums[i].y / counts[i]});
  }
  return thinned;
}

std::string ChartHtml(const Chart& chart) {
  constexpr int kRows = 4, kColumns = 2;
  Frame frame;
  const std::string caption = Element("figcaption", "", Escape(chart.title));
  if (!Measure(chart, &frame)) {
    return Element("figure", "", caption + Element("p", "class=\"none\"", "Nothing was recorded."));
  }
  std::string drawing = Element("title", "", Escape(chart.title + ". " + chart.summary));
  std::string rows, columns;
  for (int i = 0; i <= kRows; ++i) {
    const double share = static_cast<double>(i) / kRows;
    const double at = frame.y_high - share * (frame.y_high - frame.y_low);
    if (frame.y_high > frame.y_low || i == kRows / 2) {
      rows += Place("top", share, chart.format_y(frame.log ? std::pow(10.0, at) : at));
    }
    drawing += "<path class=\"grid\" d=\"M0 " + Number(share * kHeight) + "H1000\"></path>";
  }
  for (int i = 0; i <= kColumns; ++i) {
    const double share = static_cast<double>(i) / kColumns;
    if (frame.x_high == frame.x_low && i != 1) continue;
    const double at = frame.x_low + share * (frame.x_high - frame.x_low);
    columns += Place(
        "left", share,
        (i == 1 ? chart.x_label + " " : "") + FormatCount(static_cast<int64_t>(std::llround(at))));
  }
  for (const ChartSeries& series : chart.series) drawing += SeriesHtml(frame, series);
  const std::string svg =
      Element("svg",
              "viewBox=\"0 0 1000 400\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" +
                  Escape(chart.title + ". " + chart.summary) + "\"",
              drawing);
  return Element("figure", "",
                 caption + LegendHtml(chart) +
                     Element("div", "class=\"plot\"",
                             Element("div", "class=\"ys\" aria-hidden=\"true\"", rows) + svg +
                                 Element("div", "class=\"xs\" aria-hidden=\"true\"", columns)) +
                     Element("p", "class=\"note\"", Escape(chart.summary))) +
         "\n";
}

std::string BarsHtml(const std::string& title, const std::string& summary, int colour,
                     const std::vector<ChartBar>& bars) {
  std::string drawing = Element("title", "", Escape(title + ". " + summary));
  std::string labels;
  const double width = kWidth / static_cast<double>(std::max<size_t>(1, bars.size()));
  for (size_t i = 0; i < bars.size(); ++i) {
    const double height = std::clamp(bars[i].share, 0.0, 1.0) * kHeight;
    drawing += "<rect class=\"bar c" + std::to_string(colour) + "\" x=\"" +
               Number(static_cast<double>(i) * width + width * 0.1) + "\" y=\"" +
               Number(kHeight - height) + "\" width=\"" + Number(width * 0.8) + "\" height=\"" +
               Number(height) + "\"></rect>";
    labels += Element("span", "", Escape(bars[i].label));
  }
  return Element("figure", "",
                 Element("figcaption", "", Escape(title)) +
                     Element("div", "class=\"columns\"",
                             Element("svg",
                                     "viewBox=\"0 0 1000 400\" preserveAspectRatio=\"none\" "
                                     "role=\"img\" aria-label=\"" +
                                         Escape(title + ". " + summary) + "\"",
                                     drawing) +
                                 Element("div", "class=\"labels\" aria-hidden=\"true\"", labels)) +
                     Element("p", "class=\"note\"", Escape(summary))) +
         "\n";
}

}  // namespace coat
