#include "server/jobs/transition.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "server/jobs/reason.h"

namespace coat {
namespace {

TEST(TransitionTest, PrintedTableIsUpToDate) {
  std::ifstream file(COAT_SOURCE_DIR "/server/jobs/TRANSITIONS.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), PrintTransitions()) << "write PrintTransitions() to the file";
}

TEST(TransitionTest, NothingLeavesATerminalState) {
  for (int state = 0; state < coatrack::v1::JobState_ARRAYSIZE; ++state) {
    const auto from = static_cast<coatrack::v1::JobState>(state);
    for (int trigger = 0; trigger < kTriggers; ++trigger) {
      const auto to = NextState(from, static_cast<Trigger>(trigger));
      if (IsTerminal(from)) {
        EXPECT_FALSE(to.has_value()) << StateName(from);
      }
    }
  }
}

TEST(TransitionTest, EveryLiveStateCanBeStopped) {
  for (const auto state : {coatrack::v1::JOB_STATE_STARTING, coatrack::v1::JOB_STATE_RUNNING,
                           coatrack::v1::JOB_STATE_RECOVERING}) {
    EXPECT_EQ(NextState(state, Trigger::kStopAsked), coatrack::v1::JOB_STATE_STOPPING);
  }
  EXPECT_EQ(NextState(coatrack::v1::JOB_STATE_PENDING, Trigger::kCancelled),
            coatrack::v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(NextState(coatrack::v1::JOB_STATE_STOPPING, Trigger::kCancelled),
            coatrack::v1::JOB_STATE_CANCELLED);
}

TEST(TransitionTest, StatesThatHoldDevices) {
  EXPECT_FALSE(HoldsDevices(coatrack::v1::JOB_STATE_PENDING));
  EXPECT_TRUE(HoldsDevices(coatrack::v1::JOB_STATE_RECOVERING));
  EXPECT_FALSE(HoldsDevices(coatrack::v1::JOB_STATE_FAILED));
}

}  // namespace
}  // namespace coat
