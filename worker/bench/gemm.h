// coat-bench gemm: the matrix products of a model, FP8 and BF16, each by itself.
#pragma once

#include <string>
#include <vector>

#include "worker/bench/engine.h"
#include "worker/bench/report.h"
#include "worker/bench/timing.h"

namespace coat {

struct GemmOptions {
  BenchDevice device;
  std::vector<std::string> models = {"llama-tiny"};
  BenchShape shape;  // preset: each of `models` in turn
  TimingOptions timing;
};

// Adds a row per model, weight of a block, operand format and role: forward (FP8 with precise and
// with fast accumulation), dgrad, wgrad accumulating into FP32 and into BF16; and for the output
// head in BF16. Fields m, n, k, operands, output, ms, tflops.
void RunGemm(const GemmOptions& options, Report* report);

}  // namespace coat
