#include "worker/supervisor/sync_loop.h"

#include <gtest/gtest.h>

#include "configs/base/keepalive.h"

namespace coat {
namespace {

TEST(ReconnectDelay, TheFirstRetryIsImmediate) {
  EXPECT_EQ(ReconnectDelayMs(0, 0.99), 0);
  EXPECT_EQ(ReconnectDelayMs(1, 0.99), 0);
}

TEST(ReconnectDelay, SpreadsOverAGrowingWindowOfAtMostTenSeconds) {
  EXPECT_EQ(ReconnectDelayMs(2, 0.5), 250);
  EXPECT_EQ(ReconnectDelayMs(3, 0.5), 500);
  for (int failures = 2; failures < 100; ++failures) {
    EXPECT_EQ(ReconnectDelayMs(failures, 0), 0);
    EXPECT_LE(ReconnectDelayMs(failures, 0.999), kReconnectSpreadMs);
    EXPECT_GE(ReconnectDelayMs(failures + 1, 0.5), ReconnectDelayMs(failures, 0.5));
  }
  EXPECT_EQ(ReconnectDelayMs(1000, 0.5), kReconnectSpreadMs / 2);
}

}  // namespace
}  // namespace coat
