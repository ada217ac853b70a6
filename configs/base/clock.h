// Time as a constructor argument, so that leases and back-off are tested without waiting.
#pragma once

#include <chrono>
#include <cstdint>

namespace coat {

// Thread-safe. Steady time decides (leases, limits), wall time is only shown.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t SteadyMs() const = 0;
  virtual int64_t WallMs() const = 0;  // since 1970, UTC
};

class SystemClock final : public Clock {
 public:
  int64_t SteadyMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  int64_t WallMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace coat
