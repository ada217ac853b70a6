#include "server/jobs/reason.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

using namespace coatrack::v1;

TEST(ReasonTest, ThreeWaysToDieAreThreeReasons) {
  EXPECT_STREQ(ReasonName(REASON_KILLED), "KILLED");
  EXPECT_STREQ(ReasonName(REASON_HOST_OOM), "HOST_OOM");
  EXPECT_STREQ(ReasonName(REASON_OUT_OF_DEVICE_MEMORY), "OUT_OF_DEVICE_MEMORY");
}

TEST(ReasonTest, InfrastructureDoesNotUseUpRestarts) {
  for (const Reason reason : {REASON_WORKER_LOST, REASON_PREEMPTED, REASON_RENDEZVOUS_TIMEOUT,
                              REASON_LAUNCH_FAILED, REASON_STOPPED}) {
    RetryInput input;
    input.reason = reason;
    input.restarts = 3;
    input.max_restarts = 3;
    const RetryDecision decision = DecideRetry(input);
    EXPECT_TRUE(decision.retry) << ReasonName(reason);
    EXPECT_FALSE(decision.counts) << ReasonName(reason);
  }
}

TEST(ReasonTest, CrashesCountAgainstTheUser) {
  RetryInput input;
  input.reason = REASON_KILLED;
  input.max_restarts = 2;
  input.restarts = 1;
  EXPECT_TRUE(DecideRetry(input).retry);
  EXPECT_TRUE(DecideRetry(input).counts);
  input.restarts = 2;
  EXPECT_FALSE(DecideRetry(input).retry);
}

TEST(ReasonTest, FinalReasonsAreNeverRetried) {
  for (const Reason reason :
       {REASON_USER_ERROR, REASON_DATA_CHANGED, REASON_NUMERIC, REASON_TIME_LIMIT}) {
    RetryInput input;
    input.reason = reason;
    input.max_restarts = 100;
    EXPECT_FALSE(DecideRetry(input).retry) << ReasonName(reason);
  }
}

TEST(ReasonTest, AJobThatNeverLaunchesFailsInTheEnd) {
  RetryInput input;
  input.reason = REASON_LAUNCH_FAILED;
  input.launch_failures_in_row = kMaxLaunchFailures - 1;
  EXPECT_TRUE(DecideRetry(input).retry);
  input.launch_failures_in_row = kMaxLaunchFailures;
  EXPECT_FALSE(DecideRetry(input).retry);
}

TEST(ReasonTest, BackOffDoublesToAMinute) {
  RetryInput input;
  input.reason = REASON_WORKER_LOST;
  const int64_t expected[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
  for (int failures = 1; failures <= 8; ++failures) {
    input.failures_in_row = failures;
    EXPECT_EQ(DecideRetry(input).delay_ms, expected[failures - 1]);
  }
  input.failures_in_row = 1'000'000;
  EXPECT_EQ(DecideRetry(input).delay_ms, 60000);
}

TEST(ReasonTest, TheKilledRankExplainsItsPeers) {
  EXPECT_EQ(PrimaryReason({REASON_PEER_FAILED, REASON_KILLED, REASON_COLLECTIVE_STALL}),
            REASON_KILLED);
  EXPECT_EQ(PrimaryReason({REASON_KILLED, REASON_HOST_OOM}), REASON_HOST_OOM);
  EXPECT_EQ(PrimaryReason({REASON_STOPPED, REASON_WORKER_LOST, REASON_PEER_FAILED}),
            REASON_WORKER_LOST);
  EXPECT_EQ(PrimaryReason({}), REASON_UNSPECIFIED);
}

}  // namespace
}  // namespace coat
