#include "server/workers/stall.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

using namespace coatrack::v1;

RankProgress Rank(int rank, Phase phase, int64_t step, uint64_t sequence, int64_t age_ms) {
  return {rank, "w" + std::to_string(rank), phase, step, sequence, age_ms, false};
}

constexpr StallLimits kLimits{1000, 10'000};

TEST(StallTest, StepsTakeThreeMediansWithAFloor) {
  EXPECT_EQ(PhaseLimitMs(PHASE_STEP, 5, {2.0, 1.0, 9.0}, kLimits), 6000);
  EXPECT_EQ(PhaseLimitMs(PHASE_STEP, 5, {0.01}, kLimits), 1000);
  EXPECT_EQ(PhaseLimitMs(PHASE_STEP, 0, {0.01}, kLimits), 10'000) << "longer before step one";
  EXPECT_EQ(PhaseLimitMs(PHASE_SAVE, 5, {0.01}, kLimits), 10'000);
}

TEST(StallTest, NamesTheLowestCollectiveSequence) {
  const auto stall = FindStall({Rank(0, PHASE_STEP, 7, 43, 1500), Rank(1, PHASE_STEP, 7, 42, 1500),
                                Rank(2, PHASE_STEP, 7, 43, 1500)},
                               {0.1}, kLimits);
  ASSERT_TRUE(stall.has_value());
  EXPECT_EQ(stall->rank, 1);
  EXPECT_NE(stall->message.find("rank 1 on w1"), std::string::npos);
  EXPECT_NE(stall->message.find("sequence 42"), std::string::npos);
}

TEST(StallTest, ProgressIsNoStall) {
  EXPECT_FALSE(FindStall({Rank(0, PHASE_STEP, 7, 43, 1000)}, {0.1}, kLimits).has_value());
}

TEST(StallTest, ALongLoadIsNoStall) {
  EXPECT_FALSE(FindStall({Rank(0, PHASE_LOAD, 0, 0, 9'999)}, {}, kLimits).has_value());
  EXPECT_TRUE(FindStall({Rank(0, PHASE_LOAD, 0, 0, 10'001)}, {}, kLimits).has_value());
}

TEST(StallTest, RanksThatFinishNinetySecondsApartAreNotHung) {
  RankProgress ended = Rank(0, PHASE_STEP, 100, 900, 90'000);
  ended.ended = true;
  EXPECT_FALSE(
      FindStall({ended, Rank(1, PHASE_DONE, 100, 900, 90'000), Rank(2, PHASE_STEP, 99, 899, 500)},
                {0.1}, kLimits)
          .has_value());
}

}  // namespace
}  // namespace coat
