#include "worker/ops/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "configs/base/error.h"

namespace coat {
namespace {

TEST(ThreadPoolTest, CoversEveryIndexOnceInFixedChunks) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 7, 64, 65, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::atomic<int64_t> chunks = 0;
      pool.ParallelFor(count, 7, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % 7, 0);
        EXPECT_EQ(end, std::min<int64_t>(begin + 7, count));
        ++chunks;
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      EXPECT_EQ(chunks, (count + 6) / 7);
      for (const auto& n : seen) EXPECT_EQ(n, 1);
    }
  }
}

TEST(ThreadPoolTest, ThrowsTheFirstErrorAfterAllChunks) {
  for (int threads : {2, 4}) {
    ThreadPool pool(threads);
    std::atomic<int> done = 0;
    EXPECT_THROW(pool.ParallelFor(50, 1,
                                  [&](int64_t begin, int64_t) {
                                    ++done;
                                    if (begin == 3) throw std::runtime_error("three");
                                  }),
                 std::runtime_error);
    EXPECT_EQ(done, 50);
    std::atomic<int> after = 0;
    pool.ParallelFor(50, 1, [&](int64_t, int64_t) { ++after; });
    EXPECT_EQ(after, 50);
  }
}

TEST(ThreadPoolTest, RepeatedLoopsAllFinish) {
  ThreadPool pool(3);
  std::vector<int64_t> sums(16);
  for (int round = 0; round < 2000; ++round) {
    pool.ParallelFor(16, 1, [&](int64_t begin, int64_t) { sums[begin] += begin; });
  }
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(sums[i], 2000 * i);
}

TEST(ThreadPoolTest, RefusesNoThreads) { EXPECT_THROW(ThreadPool(0), Error); }

}  // namespace
}  // namespace coat
