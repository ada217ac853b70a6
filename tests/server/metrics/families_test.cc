#include "server/metrics/families.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <set>

#include "configs/metrics/catalog.h"

namespace coat {
namespace {

std::string Text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

std::set<std::string> Names(const std::vector<prometheus::MetricFamily>& families) {
  std::set<std::string> names;
  for (const auto& family : families) names.insert(family.name);
  return names;
}

std::set<std::string> TableNames(MetricPage page) {
  std::set<std::string> names;
  for (const Metric& metric : kMetrics) {
    if (metric.page == page) names.emplace(metric.name);
  }
  return names;
}

ActiveJob Job(const std::string& id) {
  ActiveJob job;
  job.id = id;
  job.name = "tiny";
  job.steps = 200;
  job.step = 50;
  job.latest.set_loss(2.5);
  return job;
}

ActiveJob JobWithEverything() {
  ActiveJob job = Job("abc");
  job.latest.set_validation_loss(2.75);
  job.latest.set_learning_rate(0.001);
  job.latest.set_grad_norm(1.5);
  job.latest.set_step_seconds(0.25);
  job.latest.set_mfu_ratio(0.5);
  job.latest.set_checkpoint_seconds(3);
  job.latest.set_checkpoint_bytes(4096);
  job.latest.mutable_time()->set_seconds(1'700'000'000);
  return job;
}

TEST(FamiliesTest, EveryMetricOfTheTableIsOnItsPage) {
  ServerView view;
  view.active = {JobWithEverything()};
  EXPECT_EQ(Names(FleetFamilies(view)), TableNames(MetricPage::kFleet));
  const auto jobs = JobFamilies(view);
  EXPECT_EQ(Names(jobs), TableNames(MetricPage::kJobs));
  for (const auto& family : jobs) EXPECT_EQ(family.metric.size(), 1u) << family.name;
}

TEST(FamiliesTest, FleetShowsCountsTimesAndReasons) {
  ServerView view;
  view.jobs[coatrack::v1::JOB_STATE_RUNNING] = 3;
  view.pending[coatrack::v1::PENDING_REASON_NO_FREE_DEVICES] = 4;
  view.workers[coatrack::v1::WORKER_STATE_UNREACHABLE] = 1;
  view.heartbeat_age_seconds["w"] = 1.5;
  view.commits.buckets.assign(std::size(kCommitBounds) + 1, 1);
  view.counters.finished[{coatrack::v1::JOB_STATE_FAILED, coatrack::v1::REASON_HOST_OOM}] = 2;
  view.counters.queue_wait.Observe(3.0);
  view.counters.rpcs[{"Submit", "OK"}] = {7, 0.5};
  view.active_omitted = 5;
  const std::string text = Text(FleetFamilies(view));
  for (const char* line :
       {"coat_jobs{state=\"running\"} 3", "coat_jobs{state=\"pending\"} 0",
        "coat_jobs_pending{reason=\"no_free_devices\"} 4",
        "coat_jobs_pending{reason=\"backoff\"} 0", "coat_workers{state=\"unreachable\"} 1",
        "coat_worker_heartbeat_age_seconds{worker=\"w\"} 1.5",
        "coat_jobs_finished_total{result=\"failed\",reason=\"host_oom\"} 2",
        "coat_job_queue_wait_seconds_bucket{le=\"5\"} 1",
        "coat_job_queue_wait_seconds_bucket{le=\"1\"} 0", "coat_job_queue_wait_seconds_sum 3",
        "coat_scheduler_cycle_seconds_count 0", "coat_store_commit_seconds_count 11",
        "coat_rpc_requests_total{method=\"Submit\",code=\"OK\"} 7",
        "coat_rpc_seconds_total{method=\"Submit\",code=\"OK\"} 0.5", "coat_job_series_omitted 5",
        "coat_leader 1"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(FamiliesTest, JobsAreLabelledByIdAndName) {
  ServerView view;
  view.active = {Job("abc")};
  const std::string text = Text(JobFamilies(view));
  EXPECT_NE(text.find("coat_train_loss{job_id=\"abc\",job_name=\"tiny\"} 2.5"), std::string::npos);
  EXPECT_NE(text.find("coat_train_progress_ratio{job_id=\"abc\",job_name=\"tiny\"} 0.25"),
            std::string::npos);
  EXPECT_EQ(text.find("coat_validation_loss{"), std::string::npos) << "no value, no series";
  EXPECT_EQ(text.find("coat_train_step_seconds{"), std::string::npos) << "no value, no series";
  EXPECT_EQ(text.find("{job="), std::string::npos);
  EXPECT_EQ(text.find("instance="), std::string::npos);
  view.active.clear();
  EXPECT_EQ(Text(JobFamilies(view)).find("job_id="), std::string::npos);
}

}  // namespace
}  // namespace coat
