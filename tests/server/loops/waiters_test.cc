#include "server/loops/waiters.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

TEST(WaitersTest, ANotificationIsNotLostBetweenLookingAndWaiting) {
  Waiters waiters;
  std::vector<Callback> ready;
  const uint64_t seen = waiters.Version("a");
  waiters.Notify("a", &ready);
  waiters.Wait(
      "a", seen, 1000, [] {}, &ready);
  EXPECT_EQ(ready.size(), 1u);
  EXPECT_EQ(waiters.size(), 0u);
}

TEST(WaitersTest, WaitsForItsTopicOrItsDeadline) {
  Waiters waiters;
  std::vector<Callback> ready;
  int called = 0;
  waiters.Wait(
      "a", waiters.Version("a"), 1000, [&] { ++called; }, &ready);
  waiters.Wait(
      "b", waiters.Version("b"), 2000, [&] { called += 10; }, &ready);
  waiters.Expire(999, &ready);
  EXPECT_TRUE(ready.empty());
  waiters.Expire(1000, &ready);
  ASSERT_EQ(ready.size(), 1u);
  waiters.Notify("b", &ready);
  ASSERT_EQ(ready.size(), 2u);
  for (Callback& call : ready) call();
  EXPECT_EQ(called, 11);
  EXPECT_EQ(waiters.size(), 0u);
}

TEST(WaitersTest, ReleasesAll) {
  Waiters waiters;
  std::vector<Callback> ready;
  for (int i = 0; i < 5; ++i) {
    const std::string topic = std::to_string(i % 2);
    waiters.Wait(
        topic, waiters.Version(topic), 1000, [] {}, &ready);
  }
  waiters.ReleaseAll(&ready);
  EXPECT_EQ(ready.size(), 5u);
}

}  // namespace
}  // namespace coat
