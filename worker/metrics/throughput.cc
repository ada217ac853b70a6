#include "worker/metrics/throughput.h"

#include <algorithm>

namespace coat {
namespace {

struct Accelerator {
  std::string_view name;  // part of the model name
  double bf16;            // dense FLOP/s, data sheets of the maker
  double fp8;             // 0: the device has none
};

// The first match counts: longer names stand before those they contain.
constexpr Accelerator kAccelerators[] = {
    {"H100 PCIe", 756e12, 1513e12}, {"H100 NVL", 835e12, 1671e12}, {"H100", 989e12, 1979e12},
    {"H200", 989e12, 1979e12},      {"H800", 989e12, 1979e12},     {"B200", 2250e12, 4500e12},
    {"L40S", 362e12, 733e12},       {"L4", 121e12, 242e12},        {"A100", 312e12, 0},
};

}  // namespace

std::optional<double> PeakFlops(std::string_view device_model, bool fp8) {
  for (const Accelerator& accelerator : kAccelerators) {
    if (device_model.find(accelerator.name) != std::string_view::npos) {
      const double peak = fp8 ? accelerator.fp8 : accelerator.bf16;
      return peak > 0 ? std::optional<double>(peak) : std::nullopt;
    }
  }
  return std::nullopt;
}

double MfuRatio(double flops_per_token, int64_t tokens, double seconds, int devices,
                double peak_flops) {
  const double possible = seconds * devices * peak_flops;
  return possible > 0 ? flops_per_token * static_cast<double>(tokens) / possible : 0;
}

void SpeedWindow::Add(int64_t tokens, double seconds) {
  steps_.push_back({tokens, seconds});
  if (steps_.size() > limit_) steps_.pop_front();
}

double SpeedWindow::TokensPerSecond() const {
  double seconds = 0;
  int64_t tokens = 0;
  for (const Step& step : steps_) {
    seconds += step.seconds;
    tokens += step.tokens;
  }
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

std::optional<double> SpeedWindow::SecondsLeft(int64_t steps) const {
  if (steps_.empty()) return std::nullopt;
  double seconds = 0;
  for (const Step& step : steps_) seconds += step.seconds;
  return seconds / static_cast<double>(steps_.size()) *
         static_cast<double>(std::max<int64_t>(0, steps));
}

}  // namespace coat
