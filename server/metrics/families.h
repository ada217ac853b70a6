// ServerView -> Prometheus metric families. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/loops/server_view.h"

namespace coat {

inline constexpr size_t kMaxJobSeries = 500;  // jobs on /metrics/jobs; the rest is counted

// coat_jobs, coat_jobs_finished_total, coat_job_queue_wait_seconds, coat_scheduler_cycle_seconds,
// coat_workers, coat_worker_heartbeat_age_seconds, coat_store_*, coat_rpc_*, coat_leader.
std::vector<prometheus::MetricFamily> FleetFamilies(const ServerView& view);

// Job-wide series of jobs that hold devices: loss, validation loss, learning rate, norm, step time,
// tokens, MFU, skipped steps, checkpoints, progress. Labels job_id and job_name.
std::vector<prometheus::MetricFamily> JobFamilies(const ServerView& view);

}  // namespace coat
