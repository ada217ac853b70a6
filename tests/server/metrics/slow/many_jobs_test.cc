#include "tests/server/metrics/many_jobs.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

TEST(ManyJobs, FiftyThousandShortJobsLeaveSeriesMemoryAndScrapeTimeFlat) {
  testing::ExpectFlatOverJobs(50'000);
}

}  // namespace
}  // namespace coat
