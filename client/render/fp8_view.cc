#include "client/render/fp8_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace coat {

using coatrack::v1::Histogram;
using coatrack::v1::OperandHealth;

std::string OperandText(const std::string& operand) {
  return operand == "group" ? "group (1x16)" : operand;
}

double SaturationLimit(const std::string& operand) { return operand == "group" ? 0.25 : 0.01; }

std::string PercentText(double ratio) {
  if (!std::isfinite(ratio)) return "not finite";
  if (ratio == 0) return "0 %";
  const double percent = 100 * ratio;
  if (percent < 0.001) return "< 0.001 %";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %%", percent < 1 ? 3 : 1, percent);
  return text;
}

int MedianBucket(const Histogram& histogram) {
  int64_t total = 0;
  for (const int64_t count : histogram.counts()) total += count;
  int64_t below = 0;
  for (int i = 0; i < histogram.counts_size(); ++i) {
    below += histogram.counts(i);
    if (total > 0 && 2 * below >= total) return i;
  }
  return -1;
}

std::string BucketText(const Histogram& histogram, int bucket) {
  char text[32];
  const bool above = bucket >= histogram.bounds_size();
  if (histogram.bounds_size() == 0) return "all";
  std::snprintf(text, sizeof text, above ? "> %.4g" : "<= %.4g",
                histogram.bounds(above ? histogram.bounds_size() - 1 : bucket));
  return text;
}

Fp8Health JudgeFp8(const coatrack::v1::StepRecord& record) {
  if (record.health_size() == 0) return Fp8Health::kUnknown;
  const bool sound =
      std::all_of(record.health().begin(), record.health().end(), [](const OperandHealth& health) {
        return std::isfinite(health.relative_error()) && std::isfinite(health.scale_max()) &&
               health.saturated_ratio() <= SaturationLimit(health.operand());
      });
  return sound ? Fp8Health::kHealthy : Fp8Health::kAttention;
}

}  // namespace coat
