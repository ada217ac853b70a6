#include "worker/metrics/throughput.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

TEST(PeakFlops, KnowsModelsByPartOfTheirName) {
  EXPECT_EQ(PeakFlops("NVIDIA H100 80GB HBM3", true), 1979e12);
  EXPECT_EQ(PeakFlops("NVIDIA H100 PCIe", false), 756e12);
  EXPECT_EQ(PeakFlops("NVIDIA H200", false), 989e12);
  EXPECT_EQ(PeakFlops("NVIDIA L40S", true), 733e12);
  EXPECT_EQ(PeakFlops("NVIDIA A100-SXM4-80GB", false), 312e12);
  EXPECT_EQ(PeakFlops("NVIDIA A100-SXM4-80GB", true), std::nullopt);  // no FP8 there
  EXPECT_EQ(PeakFlops("cpu", true), std::nullopt);
}

TEST(MfuRatio, IsNeededOverPossible) {
  // 6e9 FLOPs a token, 1e6 tokens in 10 s on two devices of 1e15: 6e15 of 2e16.
  EXPECT_DOUBLE_EQ(MfuRatio(6e9, 1'000'000, 10, 2, 1e15), 0.3);
  EXPECT_EQ(MfuRatio(6e9, 1'000'000, 0, 2, 1e15), 0);
}

TEST(SpeedWindow, ForgetsOldSteps) {
  SpeedWindow window(2);
  EXPECT_EQ(window.TokensPerSecond(), 0);
  EXPECT_EQ(window.SecondsLeft(3), std::nullopt);
  window.Add(1000, 100);  // slow first step
  window.Add(100, 1);
  window.Add(300, 1);
  EXPECT_DOUBLE_EQ(window.TokensPerSecond(), 200);
  EXPECT_DOUBLE_EQ(*window.SecondsLeft(10), 10);
  EXPECT_DOUBLE_EQ(*window.SecondsLeft(-1), 0);
}

}  // namespace
}  // namespace coat
