#include "worker/supervisor/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <set>

#include "configs/metrics/catalog.h"

namespace coat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const std::vector<RankSeries>& ranks) {
  return prometheus::TextSerializer().Serialize(RenderRankSeries(ranks));
}

void AddKind(google::protobuf::RepeatedPtrField<coatrack::v1::KindBytes>* kinds, const char* kind,
             int64_t bytes) {
  auto* added = kinds->Add();
  added->set_kind(kind);
  added->set_bytes(bytes);
}

coatrack::v1::StepRecord Record() {
  coatrack::v1::StepRecord record;
  record.set_step(10);
  record.set_tokens_total(2048);
  record.set_step_seconds(0.25);
  AddKind(record.mutable_memory(), "weights", 100);
  AddKind(record.mutable_memory(), "optimizer", 20);
  AddKind(record.mutable_memory_planned(), "weights", 101);
  AddKind(record.mutable_memory_planned_bf16(), "weights", 202);
  auto* health = record.add_health();
  health->set_operand("gradient");
  health->set_saturated_ratio(0.5);
  health->set_flushed_ratio(0.125);
  health->set_relative_error(0.03125);
  for (const double bound : {1.0, 2.0}) record.mutable_expansion_k_m()->add_bounds(bound);
  for (const int count : {3, 4, 5}) record.mutable_expansion_k_m()->add_counts(count);
  return record;
}

RankSeries Rank(int rank) {
  RankSeries series;
  series.job_id = "j1";
  series.job_name = "tiny";
  series.rank = rank;
  series.world_size = 2;
  series.device = "cpu:0";
  series.device_bytes = 4096;
  series.recipe = "coat";
  series.metrics.Add(Record());
  return series;
}

TEST(MetricsPage, ShowsEverySeriesOfARank) {
  const std::string text = Text({Rank(0)});
  const std::string labels = "job_id=\"j1\",job_name=\"tiny\",rank=\"0\",device=\"cpu:0\"";
  for (const std::string& line :
       {"coat_memory_bytes{" + labels + ",kind=\"weights\"} 100",
        "coat_memory_planned_bytes{" + labels + ",kind=\"weights\",recipe=\"coat\"} 101",
        "coat_memory_planned_bytes{" + labels + ",kind=\"weights\",recipe=\"bf16\"} 202",
        "coat_device_memory_used_bytes{" + labels + "} 120",
        "coat_device_memory_total_bytes{" + labels + "} 4096",
        "coat_train_step_seconds{" + labels + "} 0.25",
        "coat_train_tokens_total{" + labels + "} 1024",
        "coat_fp8_saturated_ratio{" + labels + ",operand=\"gradient\"} 0.5",
        "coat_fp8_flushed_ratio{" + labels + ",operand=\"gradient\"} 0.125",
        "coat_fp8_relative_error{" + labels + ",operand=\"gradient\"} 0.03125",
        "coat_optimizer_expansion_k_bucket{" + labels + ",moment=\"m\",le=\"2\"} 7",
        "coat_optimizer_expansion_k_bucket{" + labels + ",moment=\"m\",le=\"+Inf\"} 12",
        "coat_optimizer_expansion_k_count{" + labels + ",moment=\"m\"} 12"}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("job=\"")));
  EXPECT_THAT(text, Not(HasSubstr("instance=")));
}

TEST(MetricsPage, EveryMetricOfTheTableIsOnThePage) {
  std::set<std::string> shown;
  for (const auto& family : RenderRankSeries({Rank(0)})) shown.insert(family.name);
  std::set<std::string> wanted;
  for (const Metric& metric : kMetrics) {
    if (metric.page == MetricPage::kRanks) wanted.emplace(metric.name);
  }
  EXPECT_EQ(shown, wanted);
}

TEST(MetricsPage, ABf16JobHasOnePlan) {
  RankSeries rank = Rank(0);
  rank.recipe = "bf16";
  const std::string text = Text({rank});
  EXPECT_THAT(text, HasSubstr("recipe=\"bf16\"} 101\n"));
  EXPECT_THAT(text, Not(HasSubstr("} 202\n")));
}

TEST(MetricsPage, ARankVanishesWithItsSeries) {
  EXPECT_THAT(Text({Rank(0), Rank(1)}), HasSubstr("rank=\"1\""));
  EXPECT_THAT(Text({Rank(0)}), Not(HasSubstr("rank=\"1\"")));
  EXPECT_EQ(Text({}), "");
}

TEST(MetricsPage, ARankWithoutRecordsShowsNothing) {
  RankSeries rank = Rank(0);
  rank.metrics = RankMetrics();
  EXPECT_EQ(Text({rank}), "");
}

TEST(RankMetrics, KeepsWhatALaterRecordLeavesOutAndAddsHistograms) {
  RankMetrics metrics;
  metrics.Add(Record());
  coatrack::v1::StepRecord later;
  later.set_step(11);
  later.set_step_seconds(0.5);
  metrics.Add(later);
  EXPECT_EQ(metrics.measured_bytes(), 120);
  EXPECT_EQ(metrics.step_seconds(), 0.5);
  EXPECT_EQ(metrics.health().at("gradient").saturated_ratio(), 0.5);
  metrics.Add(Record());
  EXPECT_EQ(metrics.expansion_k_m().counts(2), 10);
  EXPECT_EQ(metrics.expansion_k_v().counts_size(), 0);
}

}  // namespace
}  // namespace coat
