#include "client/render/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "configs/base/units.h"

namespace coat {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Range {
  double low = 0;
  double high = 0;
};

// A raster of dots; a character holds one dot (ASCII) or 2 x 4 (braille).
class Canvas {
 public:
  Canvas(int columns, int rows, Terminal::Charset charset)
      : columns_(columns),
        rows_(rows),
        dots_x_(charset == Terminal::Charset::kUtf8 ? 2 : 1),
        dots_y_(charset == Terminal::Charset::kUtf8 ? 4 : 1),
        cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows), 0),
        marked_(cells_.size(), false) {}

  int width() const { return columns_ * dots_x_; }
  int height() const { return rows_ * dots_y_; }

  // A whole cell that shows `o` or a diamond, whatever else is there.
  void Mark(int x, int y) { marked_[CellAt(x / dots_x_, y / dots_y_)] = true; }

  void Set(int x, int y) {
    static constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    uint8_t& cell = cells_[CellAt(x / dots_x_, y / dots_y_)];
    cell |= kBits[y % dots_y_][x % dots_x_];
  }

  std::string Row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const uint8_t cell = cells_[CellAt(column, row)];
      if (marked_[CellAt(column, row)]) {
        text += dots_x_ == 1 ? "o" : "\xE2\x97\x86";
      } else if (cell == 0) {
        text += ' ';
      } else if (dots_x_ == 1) {
        text += '*';
      } else {  // U+2800 + cell in UTF-8
        text += '\xE2';
        text += static_cast<char>(0xA0 + (cell >> 6));
        text += static_cast<char>(0x80 + (cell & 0x3F));
      }
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  size_t CellAt(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  int columns_, rows_, dots_x_, dots_y_;
  std::vector<uint8_t> cells_;
  std::vector<bool> marked_;
};

int Dot(double share, int dots) { return static_cast<int>(std::lround(share * (dots - 1))); }

// Mean y of the points that fall on each of `bins` columns; kNone where there are none.
std::vector<double> Bin(const std::vector<PlotPoint>& points, const Range& x, int bins) {
  std::vector<double> sums(static_cast<size_t>(bins), 0), counts(static_cast<size_t>(bins), 0);
  for (const PlotPoint& point : points) {
    const double share = x.high > x.low ? (point.x - x.low) / (x.high - x.low) : 0;
    const auto bin = static_cast<size_t>(std::lround(share * (bins - 1)));
    sums[bin] += point.y;
    counts[bin] += 1;
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : kNone;
  return sums;
}

Range RangeOf(const std::vector<double>& values) {
  Range range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (std::isnan(value)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

void DrawCurve(const std::vector<double>& means, const Range& y, Canvas* canvas) {
  int last_x = -1, last_y = 0;
  for (int x = 0; x < canvas->width(); ++x) {
    const double mean = means[static_cast<size_t>(x)];
    if (std::isnan(mean)) continue;
    const double share = y.high > y.low ? (y.high - mean) / (y.high - y.low) : 0.5;
    const int row = static_cast<int>(std::lround(share * (canvas->height() - 1)));
    for (int step = last_x < 0 ? x : last_x + 1; step <= x; ++step) {
      const double part = last_x < 0 ? 1 : double(step - last_x) / (x - last_x);
      const double before = last_x < 0 ? part : double(step - 1 - last_x) / (x - last_x);
      const int start = last_x < 0 ? row : last_y;
      int from = static_cast<int>(std::lround(start + before * (row - start)));
      const int to = static_cast<int>(std::lround(start + part * (row - start)));
      // The first dot of a steep piece belongs to the column before.
      if (from != to) from += from < to ? 1 : -1;
      for (int dot = std::min(from, to); dot <= std::max(from, to); ++dot) canvas->Set(step, dot);
    }
    last_x = x;
    last_y = row;
  }
}

std::vector<PlotPoint> Finite(const std::vector<PlotPoint>& all) {
  std::vector<PlotPoint> points;
  std::copy_if(all.begin(), all.end(), std::back_inserter(points), [](const PlotPoint& point) {
    return std::isfinite(point.x) && std::isfinite(point.y);
  });
  return points;
}

void DrawMarks(const std::vector<PlotPoint>& marks, const Range& x, const Range& y,
               Canvas* canvas) {
  for (const PlotPoint& mark : marks) {
    const double across = x.high > x.low ? (mark.x - x.low) / (x.high - x.low) : 0;
    const double down = y.high > y.low ? (y.high - mark.y) / (y.high - y.low) : 0.5;
    canvas->Mark(Dot(across, canvas->width()), Dot(down, canvas->height()));
  }
}

}  // namespace

std::string DrawPlot(const std::vector<PlotPoint>& all, const std::string& title,
                     const std::string& x_label, const PlotOptions& options) {
  const std::vector<PlotPoint> points = Finite(all), marks = Finite(options.marks);
  if (points.empty()) return "";
  Range x{points.front().x, points.back().x};
  if (!marks.empty()) x = {std::min(x.low, marks.front().x), std::max(x.high, marks.back().x)};
  constexpr int kAxisColumns = 10;
  Canvas canvas(std::max(options.columns, 24) - kAxisColumns, std::max(options.rows, 2),
                options.charset);
  const std::vector<double> means = Bin(points, x, canvas.width());
  Range y = RangeOf(means);
  for (const PlotPoint& mark : marks) y = {std::min(y.low, mark.y), std::max(y.high, mark.y)};
  DrawCurve(means, y, &canvas);
  DrawMarks(marks, x, y, &canvas);

  const bool utf8 = options.charset == Terminal::Charset::kUtf8;
  const int rows = std::max(options.rows, 2);
  std::string text = title + "\n";
  for (int row = 0; row < rows; ++row) {
    std::string label;
    if (row == 0) label = FormatReal(y.high, 3);
    if (row == rows - 1 && y.high > y.low) label = FormatReal(y.low, 3);
    label.insert(0, static_cast<size_t>(std::max(0, kAxisColumns - 2 - TextWidth(label))), ' ');
    text += label + (utf8 ? " \xE2\x94\x82" : " |") + canvas.Row(row) + "\n";
  }
  const std::string first = FormatCount(std::llround(x.low));
  const std::string last = FormatCount(std::llround(x.high)) + " " + x_label;
  const int between =
      std::max(options.columns, 24) - kAxisColumns - TextWidth(first) - TextWidth(last);
  return text + std::string(kAxisColumns, ' ') + first +
         std::string(static_cast<size_t>(std::max(1, between)), ' ') + last + "\n";
}

}  // namespace coat
