#include "configs/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace coat {
namespace {

TEST(ForEachIndex, EachIndexOnce) {
  std::vector<std::atomic<int>> calls(1000);
  ForEachIndex(calls.size(), 8, [&](size_t i) { ++calls[i]; });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  ForEachIndex(0, 8, [](size_t) { FAIL() << "there is nothing to do"; });
}

TEST(ForEachIndex, OneThreadIsTheCallers) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  ForEachIndex(20, 1, [&](size_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(ForEachIndex, ThrowsTheLowestFailureHoweverManyThreads) {
  for (const size_t threads : {1, 2, 8}) {
    std::atomic<size_t> begun{0};
    std::string message;
    try {
      ForEachIndex(100'000, threads, [&](size_t i) {
        ++begun;
        if (i >= 3) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "3") << threads << " threads";
    EXPECT_LE(begun, 3 + threads);
  }
}

}  // namespace
}  // namespace coat
