// coat-bench ops: every element-wise operator of a model against what a copy reaches.
#pragma once

#include <string>
#include <vector>

#include "worker/bench/engine.h"
#include "worker/bench/report.h"
#include "worker/bench/timing.h"

namespace coat {

struct ElementOptions {
  BenchDevice device;
  std::vector<std::string> models = {"llama-tiny"};
  BenchShape shape;  // preset: each of `models` in turn
  TimingOptions timing;
};

// Adds a row per model and operator (variants by format): ms, bytes (what must be read and written
// once; NUMERICS 3), gb_per_second and copy_share, the rate over that of Ops::Copy of [gate | up]
// in the same run, which is the first row. On tensors that fit a cache a share may be above 1.
void RunElementOps(const ElementOptions& options, Report* report);

}  // namespace coat
