// Speed of a run.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

namespace coat {

// Largest dense tensor-core rate in FLOP/s of an accelerator by its model name, for FP8 or BF16
// operands. Nothing for CPUs and models not listed: a utilisation against a guess says nothing.
std::optional<double> PeakFlops(std::string_view device_model, bool fp8);

// Model FLOPs utilisation: FLOPs that the model needs for `tokens` (TrainFlopsPerToken) over what
// `devices` could have done in `seconds`. 0 when no time passed.
double MfuRatio(double flops_per_token, int64_t tokens, double seconds, int devices,
                double peak_flops);

// Mean speed over the last steps. Not thread-safe.
class SpeedWindow {
 public:
  explicit SpeedWindow(size_t steps) : limit_(steps) {}
  void Add(int64_t tokens, double seconds);
  double TokensPerSecond() const;  // 0 before the first step
  // Seconds that `steps` more steps take at the mean speed; nothing before the first step.
  std::optional<double> SecondsLeft(int64_t steps) const;

 private:
  struct Step {
    int64_t tokens = 0;
    double seconds = 0;
  };
  const size_t limit_;
  std::deque<Step> steps_;
};

}  // namespace coat
