// coat-bench quant: what storing the moments in FP8 does to the update, on recorded moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/bench/engine.h"
#include "worker/bench/report.h"

namespace coat {

struct QuantOptions {
  BenchDevice device;
  BenchShape shape;
  int64_t steps = 200;  // moments are recorded half way and at the end
  std::string data_root = ".";
  std::vector<std::string> text = {"**/*.md", "worker/**/*.h", "worker/**/*.cc"};
};

// Trains a model on text with FP32 moments, records them, and adds a row per pair of PaperPairs():
// m, v, codec, error (mean (u - u^)^2), relative_error, bytes_per_parameter and `ratio`, the error
// of plain E4M3/E4M3 over this one's. Returns the ratio of expanded E4M3/E4M3.
double RunQuant(const QuantOptions& options, Report* report);

}  // namespace coat
