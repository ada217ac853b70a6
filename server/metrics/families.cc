#include "server/metrics/families.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "configs/metrics/family.h"
#include "server/jobs/job_record.h"
#include "server/jobs/reason.h"

namespace coat {
namespace {

using Families = std::vector<prometheus::MetricFamily>;
using Value = std::optional<double>;
using enum MetricPage;

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string WorkerStateText(coatrack::v1::WorkerState state) {
  return coatrack::v1::WorkerState_Name(state).substr(std::size("WORKER_STATE_") - 1);
}

void AddNumber(const Metric& metric, double value, Families* families) {
  FamilyBuilder family(metric);
  family.Set({}, value);
  families->push_back(family.Take());
}

void AddTimes(const Metric& metric, const TimeHistogram& times, Families* families) {
  FamilyBuilder family(metric);
  family.SetHistogram({}, times.bounds, times.counts, times.sum);
  families->push_back(family.Take());
}

// A series for every value of the enum from `first` on, zeros included.
template <typename Enum, typename Text>
void AddCounts(const Metric& metric, const std::map<Enum, int64_t>& counts, int first, int size,
               const Text& text, Families* families) {
  FamilyBuilder family(metric);
  for (int number = first; number < size; ++number) {
    const auto key = static_cast<Enum>(number);
    const auto found = counts.find(key);
    family.Set({Lower(text(key))}, found == counts.end() ? 0 : static_cast<double>(found->second));
  }
  families->push_back(family.Take());
}

void AddJobsAndWorkers(const ServerView& view, Families* families) {
  using namespace coatrack::v1;
  AddCounts(MetricOf(kFleet, "coat_jobs"), view.jobs, JOB_STATE_PENDING, JobState_ARRAYSIZE,
            StateName, families);
  AddCounts(MetricOf(kFleet, "coat_jobs_pending"), view.pending, PENDING_REASON_QUEUED,
            PendingReason_ARRAYSIZE, PendingReasonName, families);
  FamilyBuilder finished(MetricOf(kFleet, "coat_jobs_finished_total"));
  for (const auto& [key, count] : view.counters.finished) {
    finished.Set({Lower(StateName(key.first)), Lower(ReasonName(key.second))},
                 static_cast<double>(count));
  }
  families->push_back(finished.Take());
  AddTimes(MetricOf(kFleet, "coat_job_queue_wait_seconds"), view.counters.queue_wait, families);
  AddNumber(MetricOf(kFleet, "coat_job_series_omitted"), static_cast<double>(view.active_omitted),
            families);
  AddTimes(MetricOf(kFleet, "coat_scheduler_cycle_seconds"), view.counters.cycle, families);
  AddCounts(MetricOf(kFleet, "coat_workers"), view.workers, WORKER_STATE_READY,
            WorkerState_ARRAYSIZE, WorkerStateText, families);
  FamilyBuilder heartbeat(MetricOf(kFleet, "coat_worker_heartbeat_age_seconds"));
  for (const auto& [worker, age] : view.heartbeat_age_seconds) heartbeat.Set({worker}, age);
  families->push_back(heartbeat.Take());
}

void AddStoreAndRpcs(const ServerView& view, Families* families) {
  FamilyBuilder commits(MetricOf(kFleet, "coat_store_commit_seconds"));
  commits.SetHistogram({}, kCommitBounds, view.commits.buckets, view.commits.seconds_total);
  families->push_back(commits.Take());
  AddNumber(MetricOf(kFleet, "coat_store_changes_total"), static_cast<double>(view.commits.changes),
            families);
  AddNumber(MetricOf(kFleet, "coat_store_commit_failures_total"),
            static_cast<double>(view.commits.failures), families);
  FamilyBuilder calls(MetricOf(kFleet, "coat_rpc_requests_total"));
  FamilyBuilder seconds(MetricOf(kFleet, "coat_rpc_seconds_total"));
  for (const auto& [key, count] : view.counters.rpcs) {
    calls.Set({key.first, key.second}, static_cast<double>(count.calls));
    seconds.Set({key.first, key.second}, count.seconds);
  }
  families->push_back(calls.Take());
  families->push_back(seconds.Take());
}

struct JobMetric {
  const Metric& metric;
  Value (*value)(const ActiveJob&);
};

Value IfSet(bool present, double value) { return present ? Value(value) : std::nullopt; }

const JobMetric kJobMetrics[] = {
    {MetricOf(kJobs, "coat_train_loss"),
     [](const ActiveJob& job) { return IfSet(job.latest.has_loss(), job.latest.loss()); }},
    {MetricOf(kJobs, "coat_validation_loss"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.has_validation_loss(), job.latest.validation_loss());
     }},
    {MetricOf(kJobs, "coat_train_learning_rate"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.has_learning_rate(), job.latest.learning_rate());
     }},
    {MetricOf(kJobs, "coat_train_grad_norm"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.has_grad_norm(), job.latest.grad_norm());
     }},
    {MetricOf(kJobs, "coat_train_step"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.step)); }},
    {MetricOf(kJobs, "coat_train_steps_planned"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.steps)); }},
    {MetricOf(kJobs, "coat_train_progress_ratio"),
     [](const ActiveJob& job) {
       return IfSet(job.steps > 0, static_cast<double>(job.step) /
                                       static_cast<double>(std::max<int64_t>(1, job.steps)));
     }},
    {MetricOf(kJobs, "coat_train_step_seconds"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.step_seconds() > 0, job.latest.step_seconds());
     }},
    {MetricOf(kJobs, "coat_train_tokens_total"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.latest.tokens_total())); }},
    {MetricOf(kJobs, "coat_train_mfu_ratio"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.has_mfu_ratio(), job.latest.mfu_ratio());
     }},
    {MetricOf(kJobs, "coat_train_skipped_steps_total"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.latest.skipped_total())); }},
    {MetricOf(kJobs, "coat_checkpoint_saves_total"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.checkpoints)); }},
    {MetricOf(kJobs, "coat_checkpoint_last_step"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.checkpoint_step)); }},
    {MetricOf(kJobs, "coat_checkpoint_last_seconds"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.checkpoint_seconds() > 0, job.latest.checkpoint_seconds());
     }},
    {MetricOf(kJobs, "coat_checkpoint_last_bytes"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.checkpoint_bytes() > 0,
                    static_cast<double>(job.latest.checkpoint_bytes()));
     }},
    {MetricOf(kJobs, "coat_last_progress_timestamp_seconds"),
     [](const ActiveJob& job) {
       return IfSet(job.latest.has_time(),
                    static_cast<double>(ToWallMs(job.latest.time())) / 1000.0);
     }},
    {MetricOf(kJobs, "coat_job_restarts_total"),
     [](const ActiveJob& job) { return Value(static_cast<double>(job.restarts)); }},
};

}  // namespace

Families FleetFamilies(const ServerView& view) {
  Families families;
  AddJobsAndWorkers(view, &families);
  AddStoreAndRpcs(view, &families);
  AddNumber(MetricOf(kFleet, "coat_leader"), view.scheduling ? 1 : 0, &families);
  return families;
}

Families JobFamilies(const ServerView& view) {
  Families families;
  for (const JobMetric& shown : kJobMetrics) {
    FamilyBuilder family(shown.metric);
    for (const ActiveJob& job : view.active) {
      const Value value = shown.value(job);
      if (value.has_value()) family.Set({job.id, job.name}, *value);
    }
    families.push_back(family.Take());
  }
  return families;
}

}  // namespace coat
