#include "server/workers/stall.h"

#include <algorithm>

#include "configs/base/units.h"

namespace coat {
namespace {

std::string PhaseWord(coatrack::v1::Phase phase) {
  switch (phase) {
    case coatrack::v1::PHASE_LOAD: return "loading";
    case coatrack::v1::PHASE_STEP: return "a step";
    case coatrack::v1::PHASE_EVALUATE: return "evaluation";
    case coatrack::v1::PHASE_SAVE: return "saving";
    default: return "its start";
  }
}

}  // namespace

double MedianSeconds(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<int64_t>(seconds.size()) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

int64_t PhaseLimitMs(coatrack::v1::Phase phase, int64_t step,
                     const std::vector<double>& step_seconds, const StallLimits& limits) {
  if (phase != coatrack::v1::PHASE_STEP || step < 1 || step_seconds.empty()) return limits.load_ms;
  return std::max(limits.floor_ms,
                  static_cast<int64_t>(3.0 * MedianSeconds(step_seconds) * 1000.0));
}

std::optional<Stall> FindStall(const std::vector<RankProgress>& ranks,
                               const std::vector<double>& step_seconds, const StallLimits& limits) {
  const RankProgress* behind = nullptr;
  const RankProgress* late = nullptr;
  int64_t late_limit_ms = 0;
  for (const RankProgress& rank : ranks) {
    if (rank.ended || rank.phase == coatrack::v1::PHASE_DONE) continue;
    if (behind == nullptr || rank.sequence < behind->sequence) behind = &rank;
    const int64_t limit_ms = PhaseLimitMs(rank.phase, rank.step, step_seconds, limits);
    if (rank.age_ms > limit_ms && late == nullptr) {
      late = &rank;
      late_limit_ms = limit_ms;
    }
  }
  if (late == nullptr) return std::nullopt;
  return Stall{behind->rank,
               "rank " + std::to_string(behind->rank) + " on " + behind->worker +
                   " holds the gang up: no progress for " + FormatDurationMs(late->age_ms) +
                   " in " + PhaseWord(late->phase) + " after step " + std::to_string(behind->step) +
                   " (limit " + FormatDurationMs(late_limit_ms) + "), lowest collective sequence " +
                   std::to_string(behind->sequence)};
}

}  // namespace coat
