#include "worker/bench/timing.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "worker/bench/report.h"

namespace coat {
namespace {

double SecondsOf(int64_t calls, Ops* ops, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  ops->Synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double SecondsPerCall(const TimingOptions& options, Ops* ops, const std::function<void()>& call) {
  constexpr double kMostCalls = 1000;
  SecondsOf(1, ops, call);
  const double once = std::max(SecondsOf(1, ops, call), 1e-7);
  const auto calls =
      static_cast<int64_t>(std::clamp(options.batch_seconds / once + 1, 1.0, kMostCalls));
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.repeats; ++i) {
    seconds.push_back(SecondsOf(calls, ops, call) / static_cast<double>(calls));
  }
  return Median(seconds);
}

}  // namespace coat
