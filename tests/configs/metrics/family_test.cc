#include "configs/metrics/family.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "configs/base/error.h"

namespace coat {
namespace {

std::string Text(FamilyBuilder* family) {
  return prometheus::TextSerializer().Serialize({family->Take()});
}

TEST(Family, TakesNameHelpTypeAndLabelsFromTheTable) {
  FamilyBuilder family(MetricOf(MetricPage::kRanks, "coat_memory_planned_bytes"));
  EXPECT_TRUE(family.empty());
  family.Set({"j1", "tiny", "0", "cpu:0", "weights", "coat"}, 7);
  EXPECT_EQ(Text(&family),
            "# HELP coat_memory_planned_bytes Memory of a rank by kind, planned for the job's "
            "recipe and for bf16.\n"
            "# TYPE coat_memory_planned_bytes gauge\n"
            "coat_memory_planned_bytes{job_id=\"j1\",job_name=\"tiny\",rank=\"0\",device=\"cpu:0\","
            "kind=\"weights\",recipe=\"coat\"} 7\n");
}

TEST(Family, HistogramsAreCumulative) {
  FamilyBuilder family(MetricOf(MetricPage::kFleet, "coat_scheduler_cycle_seconds"));
  const double bounds[] = {0.5, 1};
  const int64_t counts[] = {3, 0, 2};
  family.SetHistogram({}, bounds, counts, 4.5);
  const std::string text = Text(&family);
  for (const char* line :
       {"_bucket{le=\"0.5\"} 3\n", "_bucket{le=\"1\"} 3\n", "_bucket{le=\"+Inf\"} 5\n",
        "coat_scheduler_cycle_seconds_sum 4.5\n", "coat_scheduler_cycle_seconds_count 5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(Family, RefusesWhatTheTableDoesNotSay) {
  FamilyBuilder gauge(MetricOf(MetricPage::kFleet, "coat_workers"));
  EXPECT_THROW(gauge.Set({}, 1), Error);
  EXPECT_THROW(gauge.Set({"ready", "more"}, 1), Error);
  EXPECT_THROW(gauge.SetHistogram({"ready"}, {}, {}, 0), Error);
  FamilyBuilder histogram(MetricOf(MetricPage::kFleet, "coat_job_queue_wait_seconds"));
  EXPECT_THROW(histogram.Set({}, 1), Error);
}

}  // namespace
}  // namespace coat
