// What the metrics pages show, copied out of the coordinator at one moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job_service.pb.h"
#include "server/store/store.h"

namespace coat {

// Counts per upper bound, one more for what is above; as Prometheus' histograms.
struct TimeHistogram {
  explicit TimeHistogram(std::vector<double> upper_bounds)
      : bounds(std::move(upper_bounds)), counts(bounds.size() + 1, 0) {}
  void Observe(double seconds) {
    ++counts[std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin()];
    sum += seconds;
  }
  std::vector<double> bounds;
  std::vector<int64_t> counts;
  double sum = 0;
};

struct RpcCount {
  int64_t calls = 0;
  double seconds = 0;
};

struct ServerCounters {
  std::map<std::pair<coatrack::v1::JobState, coatrack::v1::Reason>, int64_t> finished;
  TimeHistogram queue_wait{{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}};
  TimeHistogram cycle{{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}};
  std::map<std::pair<std::string, std::string>, RpcCount> rpcs;  // (method, code)
};

struct ActiveJob {
  std::string id;
  std::string name;
  coatrack::v1::JobState state;
  int64_t step = 0;
  int64_t steps = 0;
  int64_t checkpoints = 0;
  int64_t checkpoint_step = 0;
  int32_t restarts = 0;
  coatrack::v1::StepRecord latest;  // of rank 0
};

inline constexpr size_t kMaxJobSeries = 500;  // jobs on /metrics/jobs; the rest is counted

struct ServerView {
  bool scheduling = true;
  std::map<coatrack::v1::JobState, int64_t> jobs;
  std::map<coatrack::v1::PendingReason, int64_t> pending;  // live jobs that wait
  std::map<coatrack::v1::WorkerState, int64_t> workers;
  std::map<std::string, double> heartbeat_age_seconds;  // by worker
  // That hold devices, then those that ended a moment ago; at most kMaxJobSeries.
  std::vector<ActiveJob> active;
  int64_t active_omitted = 0;  // that hold devices, above the cap
  CommitStats commits;
  ServerCounters counters;
};

}  // namespace coat
