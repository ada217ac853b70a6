// The worker's Prometheus page: per-rank series of the ranks that live here (SERVICE.md). Rendered
// from a snapshot at every scrape, so that a rank's series vanish with it.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/supervisor/rank_metrics.h"

namespace coat {

// Labels of every series: job_id, job_name, rank, device, and what the family adds.
//   coat_memory_bytes{kind}                  gauge, measured
//   coat_memory_planned_bytes{kind,recipe}   gauge, for the job's recipe and for bf16
//   coat_device_memory_used_bytes            gauge, sum of the measured kinds
//   coat_device_memory_total_bytes           gauge, what the device offers
//   coat_train_step_seconds                  gauge, of the last step
//   coat_train_tokens_total                  counter, this rank's share
//   coat_train_skipped_steps_total           counter
//   coat_fp8_saturated_ratio{operand}, coat_fp8_flushed_ratio{operand},
//   coat_fp8_relative_error{operand}         gauges, of the last record that carried them
//   coat_optimizer_expansion_k{moment}       histogram; its sum takes each bucket's middle
std::vector<prometheus::MetricFamily> RenderRankSeries(const std::vector<RankSeries>& ranks);

class RankMetricsPage final : public prometheus::Collectable {
 public:
  using Snapshot = std::function<std::vector<RankSeries>()>;  // thread-safe
  explicit RankMetricsPage(Snapshot snapshot) : snapshot_(std::move(snapshot)) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    return RenderRankSeries(snapshot_());
  }

 private:
  const Snapshot snapshot_;
};

}  // namespace coat
