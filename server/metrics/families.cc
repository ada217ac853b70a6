#include "server/metrics/families.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "server/jobs/job_record.h"
#include "server/jobs/reason.h"

namespace coat {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<std::pair<std::string, std::string>>;

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

ClientMetric Labelled(const Labels& labels) {
  ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

void AddGauge(MetricFamily* family, const Labels& labels, double value) {
  ClientMetric metric = Labelled(labels);
  metric.gauge.value = value;
  family->metric.push_back(std::move(metric));
}
void AddCounter(MetricFamily* family, const Labels& labels, double value) {
  ClientMetric metric = Labelled(labels);
  metric.counter.value = value;
  family->metric.push_back(std::move(metric));
}

template <typename Bounds>
MetricFamily HistogramOf(const char* name, const char* help, const Bounds& bounds,
                         const std::vector<int64_t>& counts, double sum) {
  MetricFamily family = Family(name, help, MetricType::Histogram);
  ClientMetric metric;
  uint64_t cumulative = 0;
  const size_t size = std::size(bounds);
  for (size_t i = 0; i <= size && i < counts.size(); ++i) {
    cumulative += static_cast<uint64_t>(counts[i]);
    ClientMetric::Bucket bucket;
    bucket.cumulative_count = cumulative;
    bucket.upper_bound = i < size ? bounds[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back(bucket);
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = sum;
  family.metric.push_back(std::move(metric));
  return family;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string WorkerStateText(coatrack::v1::WorkerState state) {
  return Lower(coatrack::v1::WorkerState_Name(state).substr(std::size("WORKER_STATE_") - 1));
}

MetricFamily JobsByState(const ServerView& view) {
  MetricFamily family = Family("coat_jobs", "Jobs by state.", MetricType::Gauge);
  for (int state = coatrack::v1::JOB_STATE_PENDING; state < coatrack::v1::JobState_ARRAYSIZE;
       ++state) {
    const auto key = static_cast<coatrack::v1::JobState>(state);
    const auto found = view.jobs.find(key);
    AddGauge(&family, {{"state", Lower(StateName(key))}},
             found == view.jobs.end() ? 0 : static_cast<double>(found->second));
  }
  return family;
}

MetricFamily WorkersByState(const ServerView& view) {
  MetricFamily family = Family("coat_workers", "Workers by state.", MetricType::Gauge);
  for (int state = coatrack::v1::WORKER_STATE_READY; state < coatrack::v1::WorkerState_ARRAYSIZE;
       ++state) {
    const auto key = static_cast<coatrack::v1::WorkerState>(state);
    const auto found = view.workers.find(key);
    AddGauge(&family, {{"state", WorkerStateText(key)}},
             found == view.workers.end() ? 0 : static_cast<double>(found->second));
  }
  return family;
}

void AddStoreAndRpcs(const ServerView& view, std::vector<MetricFamily>* families) {
  families->push_back(HistogramOf("coat_store_commit_seconds", "Time of a database commit.",
                                  kCommitBounds, view.commits.buckets, view.commits.seconds_total));
  MetricFamily changes =
      Family("coat_store_changes_total", "Changes handed to the database, many in a commit.",
             MetricType::Counter);
  AddCounter(&changes, {}, static_cast<double>(view.commits.changes));
  families->push_back(std::move(changes));
  MetricFamily failures =
      Family("coat_store_commit_failures_total", "Commits that the disk or the database refused.",
             MetricType::Counter);
  AddCounter(&failures, {}, static_cast<double>(view.commits.failures));
  families->push_back(std::move(failures));
  MetricFamily calls = Family("coat_rpc_requests_total",
                              "Finished calls by method and status code.", MetricType::Counter);
  MetricFamily seconds =
      Family("coat_rpc_seconds_total", "Time of finished calls, long polls and streams included.",
             MetricType::Counter);
  for (const auto& [key, count] : view.counters.rpcs) {
    const Labels labels = {{"method", key.first}, {"code", key.second}};
    AddCounter(&calls, labels, static_cast<double>(count.calls));
    AddCounter(&seconds, labels, count.seconds);
  }
  families->push_back(std::move(calls));
  families->push_back(std::move(seconds));
}

// One family over the shown jobs; jobs without a value have no series.
MetricFamily PerJob(const ServerView& view, const char* name, const char* help, MetricType type,
                    const std::function<std::optional<double>(const ActiveJob&)>& value) {
  MetricFamily family = Family(name, help, type);
  for (size_t i = 0; i < std::min(view.active.size(), kMaxJobSeries); ++i) {
    const ActiveJob& job = view.active[i];
    const std::optional<double> shown = value(job);
    if (!shown.has_value()) continue;
    const Labels labels = {{"job_id", job.id}, {"job_name", job.name}};
    type == MetricType::Counter ? AddCounter(&family, labels, *shown)
                                : AddGauge(&family, labels, *shown);
  }
  return family;
}

std::optional<double> Optional(bool present, double value) {
  return present ? std::optional<double>(value) : std::nullopt;
}

}  // namespace

std::vector<MetricFamily> FleetFamilies(const ServerView& view) {
  std::vector<MetricFamily> families;
  families.push_back(JobsByState(view));
  MetricFamily finished = Family("coat_jobs_finished_total",
                                 "Jobs that ended, by result and reason.", MetricType::Counter);
  for (const auto& [key, count] : view.counters.finished) {
    AddCounter(&finished,
               {{"result", Lower(StateName(key.first))}, {"reason", Lower(ReasonName(key.second))}},
               static_cast<double>(count));
  }
  families.push_back(std::move(finished));
  const TimeHistogram& wait = view.counters.queue_wait;
  families.push_back(HistogramOf("coat_job_queue_wait_seconds",
                                 "Time from becoming pending to being placed.", wait.bounds,
                                 wait.counts, wait.sum));
  const TimeHistogram& cycle = view.counters.cycle;
  families.push_back(HistogramOf("coat_scheduler_cycle_seconds", "Time of a scheduling pass.",
                                 cycle.bounds, cycle.counts, cycle.sum));
  families.push_back(WorkersByState(view));
  MetricFamily heartbeat = Family("coat_worker_heartbeat_age_seconds",
                                  "Time since a worker was last heard.", MetricType::Gauge);
  for (const auto& [worker, age] : view.heartbeat_age_seconds) {
    AddGauge(&heartbeat, {{"worker", worker}}, age);
  }
  families.push_back(std::move(heartbeat));
  AddStoreAndRpcs(view, &families);
  MetricFamily leader =
      Family("coat_leader", "1 when this coordinator schedules.", MetricType::Gauge);
  AddGauge(&leader, {}, view.scheduling ? 1 : 0);
  families.push_back(std::move(leader));
  return families;
}

std::vector<MetricFamily> JobFamilies(const ServerView& view) {
  std::vector<MetricFamily> families;
  const auto gauge = [&](const char* name, const char* help, auto value) {
    families.push_back(PerJob(view, name, help, MetricType::Gauge, value));
  };
  const auto counter = [&](const char* name, const char* help, auto value) {
    families.push_back(PerJob(view, name, help, MetricType::Counter, value));
  };
  gauge("coat_train_loss", "Mean negative log likelihood a token, nats.",
        [](const ActiveJob& job) { return Optional(job.latest.has_loss(), job.latest.loss()); });
  gauge("coat_validation_loss", "Loss on the validation split, nats.", [](const ActiveJob& job) {
    return Optional(job.latest.has_validation_loss(), job.latest.validation_loss());
  });
  gauge("coat_train_learning_rate", "Learning rate of the last step.", [](const ActiveJob& job) {
    return Optional(job.latest.has_learning_rate(), job.latest.learning_rate());
  });
  gauge("coat_train_grad_norm", "Gradient norm before clipping.", [](const ActiveJob& job) {
    return Optional(job.latest.has_grad_norm(), job.latest.grad_norm());
  });
  gauge("coat_train_step", "Last finished step.",
        [](const ActiveJob& job) { return std::optional<double>(job.step); });
  gauge("coat_train_steps_planned", "Steps the job asks for.",
        [](const ActiveJob& job) { return std::optional<double>(job.steps); });
  gauge("coat_train_progress_ratio", "Finished steps over planned steps.",
        [](const ActiveJob& job) {
          return Optional(job.steps > 0, static_cast<double>(job.step) /
                                             static_cast<double>(std::max<int64_t>(1, job.steps)));
        });
  gauge("coat_train_mfu_ratio", "Model FLOP utilization.", [](const ActiveJob& job) {
    return Optional(job.latest.has_mfu_ratio(), job.latest.mfu_ratio());
  });
  counter("coat_train_tokens_total", "Trained tokens.",
          [](const ActiveJob& job) { return std::optional<double>(job.latest.tokens_total()); });
  counter("coat_train_skipped_steps_total", "Steps without an update.",
          [](const ActiveJob& job) { return std::optional<double>(job.latest.skipped_total()); });
  counter("coat_checkpoint_saves_total", "Checkpoints committed.",
          [](const ActiveJob& job) { return std::optional<double>(job.checkpoints); });
  gauge("coat_checkpoint_last_step", "Step of the newest complete checkpoint.",
        [](const ActiveJob& job) { return std::optional<double>(job.checkpoint_step); });
  gauge("coat_checkpoint_last_seconds", "Time the last checkpoint took.", [](const ActiveJob& job) {
    return Optional(job.latest.checkpoint_seconds() > 0, job.latest.checkpoint_seconds());
  });
  gauge("coat_checkpoint_last_bytes", "Size of the last checkpoint.", [](const ActiveJob& job) {
    return Optional(job.latest.checkpoint_bytes() > 0,
                    static_cast<double>(job.latest.checkpoint_bytes()));
  });
  gauge("coat_last_progress_timestamp_seconds", "When the last record was written.",
        [](const ActiveJob& job) {
          return Optional(job.latest.has_time(),
                          static_cast<double>(ToWallMs(job.latest.time())) / 1000.0);
        });
  counter("coat_job_restarts_total", "Restarts that count against max_restarts.",
          [](const ActiveJob& job) { return std::optional<double>(job.restarts); });
  MetricFamily omitted = Family("coat_job_series_omitted",
                                "Active jobs above the cap of this page.", MetricType::Gauge);
  AddGauge(&omitted, {},
           static_cast<double>(view.active.size() - std::min(view.active.size(), kMaxJobSeries)));
  families.push_back(std::move(omitted));
  return families;
}

}  // namespace coat
