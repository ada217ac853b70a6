#include <algorithm>
#include <cmath>
#include <numbers>

#include "configs/base/error.h"
#include "worker/optim/optimizer.h"

namespace coat {

double LearningRate(const coatrack::v1::OptimizerSpec& spec, int64_t step, int64_t steps) {
  const double peak = spec.lr();
  const double low = spec.min_lr();
  const int64_t warmup = spec.warmup_steps();
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const int64_t after = std::max<int64_t>(1, steps - warmup);
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / after);
  switch (spec.schedule()) {
    case coatrack::v1::SCHEDULE_CONSTANT: return peak;
    case coatrack::v1::SCHEDULE_LINEAR: return peak + (low - peak) * progress;
    case coatrack::v1::SCHEDULE_COSINE:
      return low + (peak - low) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case coatrack::v1::SCHEDULE_WSD: {
      const int64_t decay = std::clamp<int64_t>(spec.decay_steps(), 1, after);
      const int64_t decayed = std::clamp<int64_t>(step - (steps - decay), 0, decay);
      return peak + (low - peak) * static_cast<double>(decayed) / static_cast<double>(decay);
    }
    default: break;
  }
  throw Error(Code::kInvalidArgument,
              "optimizer.schedule is not set; apply the defaults of the spec first, or write "
              "cosine, linear, wsd or constant");
}

}  // namespace coat
