// coat-bench layer: where the time of a step goes, operator by operator.
#pragma once

#include "worker/bench/report.h"
#include "worker/bench/step.h"

namespace coat {

// For each model and recipe of `options`: runs steps as they are, then `steps` more with every
// operator waited for (TimedOps). Adds a row per operator: calls and ms a step, share of all
// operators; and a last row "step" with step_ms (median of the steps as they are) and operators_ms
// (sum of the operators: its excess over step_ms is what the waiting costs).
void RunLayer(const StepOptions& options, Report* report);

}  // namespace coat
