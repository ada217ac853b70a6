// A clock that a test turns.
#pragma once

#include <atomic>

#include "configs/base/clock.h"

namespace coat {

class ManualClock final : public Clock {
 public:
  int64_t SteadyMs() const override { return now_ms; }
  int64_t WallMs() const override { return 1'767'225'600'000 + now_ms; }
  std::atomic<int64_t> now_ms = 1'000'000;
};

}  // namespace coat
