// A curve drawn with characters.
#pragma once

#include <string>
#include <vector>

#include "client/render/terminal.h"

namespace coat {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotOptions {
  int columns = 72;  // of the whole drawing, at least 24
  int rows = 12;     // of the curve, at least 2
  Terminal::Charset charset = Terminal::Charset::kAscii;
  std::vector<PlotPoint> marks = {};  // drawn as single points over the curve, in ascending x
};

// The curve of the finite points, in ascending x: each column shows the mean of its points, and
// neighbours are joined. The axes carry the ends of both ranges, those of the finite marks
// included. Empty without a finite point.
std::string DrawPlot(const std::vector<PlotPoint>& points, const std::string& title,
                     const std::string& x_label, const PlotOptions& options);

}  // namespace coat
