#include "configs/metrics/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "configs/metrics/catalog_page.h"

namespace coat {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::set<std::string> NamesOf(MetricPage page) {
  std::set<std::string> names;
  for (const Metric& metric : kMetrics) {
    if (metric.page == page) names.emplace(metric.name);
  }
  return names;
}

// SERVICE.md, Prometheus, and PROTOCOLS.md section 7, name by name.
TEST(Catalog, HasWhatTheServicePromises) {
  EXPECT_THAT(NamesOf(MetricPage::kFleet),
              IsSupersetOf({"coat_jobs", "coat_jobs_finished_total", "coat_job_queue_wait_seconds",
                            "coat_scheduler_cycle_seconds", "coat_workers",
                            "coat_worker_heartbeat_age_seconds", "coat_store_commit_seconds",
                            "coat_rpc_requests_total", "coat_leader"}));
  EXPECT_THAT(
      NamesOf(MetricPage::kJobs),
      IsSupersetOf({"coat_train_loss", "coat_validation_loss", "coat_train_step_seconds",
                    "coat_train_tokens_total", "coat_train_grad_norm", "coat_train_learning_rate",
                    "coat_train_mfu_ratio", "coat_train_skipped_steps_total",
                    "coat_last_progress_timestamp_seconds", "coat_checkpoint_saves_total"}));
  EXPECT_THAT(NamesOf(MetricPage::kRanks),
              IsSupersetOf({"coat_memory_bytes", "coat_memory_planned_bytes",
                            "coat_device_memory_used_bytes", "coat_device_memory_total_bytes",
                            "coat_train_step_seconds", "coat_train_tokens_total",
                            "coat_fp8_saturated_ratio", "coat_fp8_flushed_ratio",
                            "coat_fp8_relative_error", "coat_optimizer_expansion_k"}));
}

TEST(Catalog, NamesFollowPrometheus) {
  static const std::regex kName("coat_[a-z0-9]+(_[a-z0-9]+)*");
  static const std::set<std::string_view> kBaseUnits = {"seconds", "bytes", "ratio"};
  std::set<std::pair<MetricPage, std::string_view>> seen;
  for (const Metric& metric : kMetrics) {
    const std::string name(metric.name);
    EXPECT_TRUE(std::regex_match(name, kName)) << name;
    EXPECT_TRUE(seen.emplace(metric.page, metric.name).second) << name << " is there twice";
    EXPECT_EQ(name.ends_with("_total"), metric.type == MetricType::kCounter) << name;
    const std::string stem =
        metric.type == MetricType::kCounter ? name.substr(0, name.size() - 6) : name;
    EXPECT_TRUE(!kBaseUnits.contains(metric.unit) || stem.ends_with("_" + std::string(metric.unit)))
        << name << " is in " << metric.unit;
    EXPECT_FALSE(metric.help.empty()) << name;
    EXPECT_TRUE(metric.help.ends_with('.')) << name;
    EXPECT_EQ(metric.help.find('|'), std::string_view::npos) << name << ": breaks the page's table";
  }
}

// Prometheus itself sets `job` and `instance`; a metric of two pages has one type and unit.
TEST(Catalog, LabelsAndTypesDoNotClash) {
  std::map<std::string_view, const Metric*> by_name;
  for (const Metric& metric : kMetrics) {
    const std::string labels =
        "," + std::string(PageLabels(metric.page)) + "," + std::string(metric.labels) + ",";
    for (const char* reserved : {",job,", ",instance,", ",le,", ",worker_id,"}) {
      EXPECT_EQ(labels.find(reserved), std::string::npos) << metric.name;
    }
    const Metric* other = by_name.emplace(metric.name, &metric).first->second;
    EXPECT_EQ(other->type, metric.type) << metric.name;
    EXPECT_EQ(other->unit, metric.unit) << metric.name;
  }
}

TEST(Catalog, PrintedPageIsUpToDate) {
  std::ifstream file(COAT_SOURCE_DIR "/deploy/prometheus/METRICS.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), PrintMetrics())
      << "build/release/tests/print_metrics > deploy/prometheus/METRICS.md";
}

// Whatever people read about a metric exists. (Rules and dashboards: tests/deploy.)
TEST(Catalog, DocumentsNameMetricsThatExist) {
  static const std::regex kQuoted("`(coat_[a-z0-9_]+)(\\{[^`]*\\})?`");
  std::set<std::string> known;
  for (const Metric& metric : kMetrics) known.emplace(metric.name);
  std::set<std::string> unknown;
  for (const char* page :
       {"README.md", "ARCHITECTURE.md", "deploy/operations.md", "deploy/prometheus/README.md",
        "deploy/grafana/README.md", "deploy/kubernetes/README.md"}) {
    std::ifstream file(std::string(COAT_SOURCE_DIR "/") + page);
    ASSERT_TRUE(file.good()) << page;
    std::stringstream text;
    text << file.rdbuf();
    const std::string content = text.str();
    for (std::sregex_iterator match(content.begin(), content.end(), kQuoted), end; match != end;
         ++match) {
      if (!known.contains((*match)[1].str())) unknown.insert((*match)[1].str() + " in " + page);
    }
  }
  EXPECT_THAT(unknown, IsEmpty());
}

}  // namespace
}  // namespace coat
