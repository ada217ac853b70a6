#include "tests/server/metrics/many_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <limits>

#include "tests/server/metrics/job_mill.h"

namespace coat::testing {
namespace {

constexpr int kRetained = 1000;
// A finished job's line: id, name, request id (36 bytes) and hash (64 bytes), and their four
// indexes.
constexpr int64_t kBytesPerFinished = 1024;
constexpr double kScrapeNoiseSeconds = 0.002;

// The best of some parts: what else the machine does only adds.
double BestRun(JobMill* mill, int jobs) {
  constexpr int kParts = 5;
  double best = std::numeric_limits<double>::infinity();
  for (int part = 0; part < kParts; ++part) best = std::min(best, mill->Run(jobs / kParts));
  return best;
}

void Print(const char* when, int jobs, double seconds_per_job, const Footprint& footprint) {
  std::cout << when << " " << jobs << " jobs: " << seconds_per_job * 1e6 << " us a job, "
            << footprint.series << " series, scrape " << footprint.scrape_seconds * 1e3
            << " ms, heap " << footprint.heap_bytes / 1024 << " KiB\n";
}

}  // namespace

void ExpectFlatOverJobs(int jobs) {
  JobMill mill(kRetained);
  // Until what is bounded is full: kept jobs and series of ended ones.
  mill.Run(2 * kRetained);
  const double early = BestRun(&mill, jobs / 10);
  const Footprint before = mill.Measure();
  Print("after the first", jobs / 10, early, before);
  mill.Run(jobs - 2 * (jobs / 10));
  const double late = BestRun(&mill, jobs / 10);
  const Footprint after = mill.Measure();
  Print("after all", jobs, late, after);
  EXPECT_EQ(before.series, after.series);
  EXPECT_LT(late, 2 * early);
  EXPECT_LT(after.scrape_seconds, 2 * before.scrape_seconds + kScrapeNoiseSeconds);
  // What is left of a job that has been dropped is nothing: 8 bytes each would be seen.
  EXPECT_LT(after.heap_bytes - before.heap_bytes, 256 * 1024 + 8LL * jobs / 10);
}

void ExpectFlatOverFinished(int finished) {
  constexpr int kJobs = 1280;
  JobMill empty(2 * finished);
  const double alone = BestRun(&empty, kJobs);
  const Footprint before = empty.Measure();
  Print("beside", 0, alone, before);
  JobMill full(2 * finished, finished);
  const double beside = BestRun(&full, kJobs);
  const Footprint after = full.Measure();
  Print("beside", finished, beside, after);
  EXPECT_EQ(before.series, after.series);
  EXPECT_LT(beside, 2 * alone);
  EXPECT_LT(after.scrape_seconds, 2 * before.scrape_seconds + kScrapeNoiseSeconds);
  EXPECT_LT(after.heap_bytes - before.heap_bytes, kBytesPerFinished * finished + 4 * 1024 * 1024);
}

}  // namespace coat::testing
