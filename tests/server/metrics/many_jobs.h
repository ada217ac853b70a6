// What holds however many jobs have ended; bodies of a short and of a long test.
#pragma once

namespace coat::testing {

// `jobs` short jobs with few kept: series, heap and scrape time after a tenth of them and after all
// are the same.
void ExpectFlatOverJobs(int jobs);

// With `finished` jobs kept, a coordinator places and scrapes as fast as an empty one, and pays a
// bounded number of bytes for each.
void ExpectFlatOverFinished(int finished);

}  // namespace coat::testing
