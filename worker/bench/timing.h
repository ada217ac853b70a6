// Time of an operator, launches hidden: many calls between two synchronizations.
#pragma once

#include <cstdint>
#include <functional>

#include "worker/ops/ops.h"

namespace coat {

struct TimingOptions {
  int64_t repeats = 5;          // measured batches of calls; the median counts
  double batch_seconds = 0.02;  // least wall time of a batch of calls
};

// Median seconds of one call. A first call warms up (libraries choose their plans in it), a second
// one sets the number of calls a batch, at most 1000.
double SecondsPerCall(const TimingOptions& options, Ops* ops, const std::function<void()>& call);

}  // namespace coat
