// The line that shows how far a run is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/render/terminal.h"

namespace coat {

struct Progress {
  int64_t step = 0;
  int64_t steps = 0;
  std::optional<double> loss;
  double tokens_per_second = 0;  // 0: unknown
  double seconds_per_step = 0;   // 0: unknown
};

// "[#####.....] 600/1,200  loss 2.3412  12,345 tok/s  1m02s left", at most `columns` wide; no line
// break.
std::string ProgressLine(const Progress& progress, const Terminal& terminal);
// The same without a bar, for files: "step 600/1,200, loss 2.3412, 12,345 tok/s, 1m02s left".
std::string ProgressText(const Progress& progress);

}  // namespace coat
