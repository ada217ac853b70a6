// Progress, not liveness: finds the rank that holds its gang up (PROTOCOLS.md section 8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"

namespace coat {

struct RankProgress {
  int32_t rank = 0;
  std::string worker;
  coatrack::v1::Phase phase = coatrack::v1::PHASE_UNSPECIFIED;
  int64_t step = 0;
  uint64_t sequence = 0;  // of collectives
  int64_t age_ms = 0;     // since phase, step or sequence last moved
  bool ended = false;     // exited, or its worker is silent: not judged here
};

struct StallLimits {
  int64_t floor_ms = 60'000;  // least limit of a step
  int64_t load_ms = 600'000;  // loading, the first step, evaluation and saving
};

struct Stall {
  int32_t rank = 0;
  std::string message;  // names the rank, its worker, phase, sequence and the limit
};

// Of at least one value.
double MedianSeconds(std::vector<double> seconds);

// Limit of a phase: steps after the first take 3 x the median of `step_seconds`, at least the
// floor; everything else load_ms.
int64_t PhaseLimitMs(coatrack::v1::Phase phase, int64_t step,
                     const std::vector<double>& step_seconds, const StallLimits& limits);

// A gang is stalled when a rank exceeds the limit of its phase. In a hung collective all counters
// stop together, so the rank with the lowest sequence number is named. Ranks that ended or are in
// PHASE_DONE are left out, so that a gang whose ranks finish apart is not taken for hung.
std::optional<Stall> FindStall(const std::vector<RankProgress>& ranks,
                               const std::vector<double>& step_seconds, const StallLimits& limits);

}  // namespace coat
