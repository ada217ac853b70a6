#include "tests/server/metrics/many_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/metrics/job_mill.h"

namespace coat {
namespace {

// Fifty thousand: tests/slow.
TEST(ManyJobs, FiveThousandShortJobsLeaveSeriesMemoryAndScrapeTimeFlat) {
  testing::ExpectFlatOverJobs(5000);
}

TEST(ManyJobs, AHundredThousandFinishedJobsSlowNothingDown) {
  testing::ExpectFlatOverFinished(100'000);
}

TEST(ManyJobs, SeriesOfAJobStayAWhileAfterItsEndAndAreCapped) {
  testing::JobMill mill(10'000);
  mill.Run(64);
  std::vector<ActiveJob> shown = mill.coordinator()->View().active;
  ASSERT_EQ(shown.size(), 64u);
  EXPECT_EQ(shown.front().latest.loss(), 2.5);
  EXPECT_EQ(shown.front().state, coatrack::v1::JOB_STATE_SUCCEEDED);
  mill.Advance(kEndedSeriesMs);
  EXPECT_TRUE(mill.coordinator()->View().active.empty());
  mill.Run(2 * static_cast<int>(kMaxJobSeries));
  shown = mill.coordinator()->View().active;
  EXPECT_EQ(shown.size(), kMaxJobSeries);
  EXPECT_EQ(mill.coordinator()->View().active_omitted, 0);
}

}  // namespace
}  // namespace coat
