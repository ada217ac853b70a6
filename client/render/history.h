// The records of a run, joined over attempts: what curves, progress and summaries are made of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/render/plot.h"
#include "coatrack/v1/events.pb.h"

namespace coat {

// Thread-compatible.
class RunHistory {
 public:
  // Records of rank 0 only. A record of a later attempt replaces those of its step and after.
  void Add(const coatrack::v1::StepRecord& record);

  bool empty() const { return records_.empty(); }
  // Null when there is none.
  const coatrack::v1::StepRecord* newest() const;
  std::vector<PlotPoint> Losses() const;
  std::vector<PlotPoint> ValidationLosses() const;
  // One record a step, joined from those of training, evaluation and saving.
  std::vector<coatrack::v1::StepRecord> Records() const;
  // Before the first step or, failing that, the first one measured; and the last one.
  std::optional<double> first_validation_loss() const;
  std::optional<double> last_validation_loss() const;
  // Newest record that carries memory; null when there is none.
  const coatrack::v1::StepRecord* newest_memory() const;
  // Newest record that carries FP8 health; null when there is none.
  const coatrack::v1::StepRecord* newest_health() const;
  // Newest record of a committed checkpoint; null when there is none.
  const coatrack::v1::StepRecord* newest_checkpoint() const;
  // Over the newest steps; zero when unknown.
  double tokens_per_second() const;
  double seconds_per_step() const;
  int64_t tokens_total() const;
  double step_seconds_total() const;

 private:
  std::map<int64_t, coatrack::v1::StepRecord> records_;  // by step
};

}  // namespace coat
