// coat-bench step: time and memory of training steps, recipe by recipe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/bench/engine.h"
#include "worker/bench/report.h"

namespace coat {

struct StepOptions {
  BenchDevice device;
  std::vector<std::string> models = {"llama-tiny", "llama-10m"};
  BenchShape shape;  // preset: each of `models` in turn
  std::vector<std::string> recipes = {"bf16", "fp8", "coat"};
  std::vector<std::string> settings;  // "precision.gradients=bf16": fields of the job, SetField
  int64_t steps = 20;
  int64_t warmup = 3;
};

// The job of one model and recipe, defaults applied. Error(kInvalidArgument) naming the field.
coatrack::v1::JobSpec StepJob(const StepOptions& options, const std::string& model,
                              const std::string& recipe);

// Error(kFailedPrecondition) naming the 0-based `step` (from 1), model and recipe for a loss that
// is not finite.
void CheckLoss(double loss, int64_t step, const std::string& model, const std::string& recipe);

// Adds a row per model and recipe: shape, recipe, batch, median step ms, tokens/s, TFLOP/s (6 x
// non-embedding parameters + causal attention), bytes by kind and in all, fp8_weights, gradients,
// master, optimizer_state, loss of the first and the last step. Tokens are random.
// Errors: CheckLoss of every step.
void RunStep(const StepOptions& options, Report* report);

}  // namespace coat
