// Every metric that the daemons export (SERVICE.md, Prometheus; PROTOCOLS.md section 7). Families
// are made from this table alone (family.h), and METRICS.md is printed from it.
#pragma once

#include <cstdint>
#include <string_view>

namespace coat {

enum class MetricPage : uint8_t {
  kFleet,  // the coordinator's /metrics
  kJobs,   // the coordinator's /metrics/jobs: job-wide series of active jobs
  kRanks,  // a worker's /metrics: series of the ranks that live there
};
enum class MetricType : uint8_t { kGauge, kCounter, kHistogram };

struct Metric {
  MetricPage page;
  std::string_view name;  // with its base unit last, then _total of a counter
  MetricType type;
  std::string_view unit;  // what a value counts; "1": yes or no, or a plain number
  std::string_view
      labels;  // own ones in their order, "result,reason"; those of the page come first
  std::string_view help;
};

// Labels that every metric of a page has, first.
constexpr std::string_view PageLabels(MetricPage page) {
  switch (page) {
    case MetricPage::kFleet: return "";
    case MetricPage::kJobs: return "job_id,job_name";
    case MetricPage::kRanks: return "job_id,job_name,rank,device";
  }
  return "";
}

namespace metric_table {

using enum MetricPage;
using enum MetricType;

inline constexpr Metric kMetrics[] = {
    {kFleet, "coat_jobs", kGauge, "jobs", "state",
     "Jobs by state; those that ended for as long as they are kept."},
    {kFleet, "coat_jobs_pending", kGauge, "jobs", "reason",
     "Jobs that wait, by what they wait for; `coat describe JOB` says it for one."},
    {kFleet, "coat_jobs_finished_total", kCounter, "jobs", "result,reason",
     "Jobs that ended since this coordinator started, by result and reason."},
    {kFleet, "coat_job_queue_wait_seconds", kHistogram, "seconds", "",
     "Time from becoming pending to being placed."},
    {kFleet, "coat_job_series_omitted", kGauge, "jobs", "",
     "Active jobs above the cap of /metrics/jobs, which shows 500."},
    {kFleet, "coat_scheduler_cycle_seconds", kHistogram, "seconds", "",
     "Time of a scheduling pass."},
    {kFleet, "coat_workers", kGauge, "workers", "state", "Workers by state."},
    {kFleet, "coat_worker_heartbeat_age_seconds", kGauge, "seconds", "worker",
     "Time since a worker was last heard."},
    {kFleet, "coat_store_commit_seconds", kHistogram, "seconds", "",
     "Time of a database commit, the sync to disk included."},
    {kFleet, "coat_store_changes_total", kCounter, "changes", "",
     "Changes handed to the database, many in a commit."},
    {kFleet, "coat_store_commit_failures_total", kCounter, "commits", "",
     "Commits that the disk or the database refused."},
    {kFleet, "coat_rpc_requests_total", kCounter, "calls", "method,code",
     "Finished calls by method and gRPC status code."},
    {kFleet, "coat_rpc_seconds_total", kCounter, "seconds", "method,code",
     "Time of finished calls, long polls and streams included."},
    {kFleet, "coat_leader", kGauge, "1", "",
     "1 when this coordinator schedules, 0 when it refuses."},

    {kJobs, "coat_train_loss", kGauge, "nats", "", "Mean negative log likelihood of a token."},
    {kJobs, "coat_validation_loss", kGauge, "nats", "", "Loss on the validation split."},
    {kJobs, "coat_train_learning_rate", kGauge, "1", "", "Learning rate of the last step."},
    {kJobs, "coat_train_grad_norm", kGauge, "1", "",
     "Norm of the gradients before clipping, of the last step."},
    {kJobs, "coat_train_step", kGauge, "steps", "", "Last finished step."},
    {kJobs, "coat_train_steps_planned", kGauge, "steps", "", "Steps the job asks for."},
    {kJobs, "coat_train_progress_ratio", kGauge, "ratio", "", "Finished steps over planned steps."},
    {kJobs, "coat_train_step_seconds", kGauge, "seconds", "",
     "Duration of the last step, of rank 0."},
    {kJobs, "coat_train_tokens_total", kCounter, "tokens", "", "Trained tokens, of all ranks."},
    {kJobs, "coat_train_mfu_ratio", kGauge, "ratio", "",
     "Model FLOP utilization; only of devices whose peak is known."},
    {kJobs, "coat_train_skipped_steps_total", kCounter, "steps", "",
     "Steps without an update: gradients not finite, or no valid target."},
    {kJobs, "coat_checkpoint_saves_total", kCounter, "checkpoints", "", "Checkpoints committed."},
    {kJobs, "coat_checkpoint_last_step", kGauge, "steps", "",
     "Step of the newest complete checkpoint; 0: there is none."},
    {kJobs, "coat_checkpoint_last_seconds", kGauge, "seconds", "",
     "Time that the last checkpoint took."},
    {kJobs, "coat_checkpoint_last_bytes", kGauge, "bytes", "", "Size of the last checkpoint."},
    {kJobs, "coat_last_progress_timestamp_seconds", kGauge, "seconds", "",
     "When the last record was written, since 1970."},
    {kJobs, "coat_job_restarts_total", kCounter, "restarts", "",
     "Restarts that count against max_restarts."},

    {kRanks, "coat_memory_bytes", kGauge, "bytes", "kind",
     "Memory of a rank by kind, measured; kind other lies outside the plan."},
    {kRanks, "coat_memory_planned_bytes", kGauge, "bytes", "kind,recipe",
     "Memory of a rank by kind, planned for the job's recipe and for bf16."},
    {kRanks, "coat_device_memory_used_bytes", kGauge, "bytes", "",
     "Memory that a rank uses on its device, all kinds together."},
    {kRanks, "coat_device_memory_total_bytes", kGauge, "bytes", "",
     "Memory that the device offers."},
    {kRanks, "coat_train_step_seconds", kGauge, "seconds", "", "Duration of the last step."},
    {kRanks, "coat_train_tokens_total", kCounter, "tokens", "",
     "Trained tokens, this rank's share."},
    {kRanks, "coat_train_skipped_steps_total", kCounter, "steps", "", "Steps without an update."},
    {kRanks, "coat_fp8_saturated_ratio", kGauge, "ratio", "operand",
     "Share of values whose code is the format's largest."},
    {kRanks, "coat_fp8_flushed_ratio", kGauge, "ratio", "operand",
     "Share of non-zero values whose code is zero."},
    {kRanks, "coat_fp8_relative_error", kGauge, "1", "operand",
     "Norm of the quantization error over the norm of the values."},
    {kRanks, "coat_optimizer_expansion_k", kHistogram, "1", "moment",
     "Expansion exponents k of the moments' groups; the sum takes the middle of each bucket."},
};

}  // namespace metric_table

using metric_table::kMetrics;

// The metric of that name on that page. A name that the table lacks does not compile.
consteval const Metric& MetricOf(MetricPage page, std::string_view name) {
  for (const Metric& metric : kMetrics) {
    if (metric.page == page && metric.name == name) return metric;
  }
  throw "the table has no such metric";
}

}  // namespace coat
