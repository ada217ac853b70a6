#include <gtest/gtest.h>

#include "tests/support/gpu.h"

namespace coat::testing {
namespace {

TEST(DecideGpu, RunsWhereTheBackendWorks) {
  EXPECT_EQ(DecideGpu(true, true, "").choice, GpuDecision::kRun);
}

TEST(DecideGpu, SkipsWithTheReasonWhereThereIsNoGpu) {
  const GpuDecision decision = DecideGpu(false, true, "no NVIDIA driver");
  EXPECT_EQ(decision.choice, GpuDecision::kSkip);
  EXPECT_EQ(decision.reason, "NOT RUN, needs a GPU: no NVIDIA driver");
  EXPECT_EQ(DecideGpu(true, false, "CUDA is not compiled in").choice, GpuDecision::kSkip);
}

TEST(DecideGpu, FailsWhereAGpuIsNotUsed) {
  const GpuDecision decision = DecideGpu(true, true, "the driver is too old");
  EXPECT_EQ(decision.choice, GpuDecision::kFail);
  EXPECT_EQ(decision.reason, "this machine has a GPU, but: the driver is too old");
}

}  // namespace
}  // namespace coat::testing
