#include "worker/supervisor/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "configs/base/units.h"
#include "tests/support/manual_clock.h"
#include "tests/support/process.h"

namespace coat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class FakeDriver final : public GpuDriver {
 public:
  Result<std::vector<Gpu>> List() override { return std::vector<Gpu>(); }
  Result<GpuUsage> Usage(const std::string& uuid) override {
    if (!answers) return Status(Code::kFailedPrecondition, "gone");
    return usage[uuid];
  }
  std::map<std::string, GpuUsage> usage;
  bool answers = true;
};

class GpuWatchTest : public ::testing::Test {
 protected:
  void SetCommand(pid_t pid, std::vector<std::string> arguments) {
    std::string text;
    for (const std::string& argument : arguments) text += argument + '\0';
    const std::string dir = dir_.file(std::to_string(pid));
    std::filesystem::create_directories(dir);
    testing::WriteFile(dir + "/cmdline", text);
  }
  // Job 1 has come to GPU-b, where `before` bytes were in use.
  void Occupy(int64_t before) {
    driver_.usage["GPU-b"].used_bytes = before;
    EXPECT_FALSE(watch_.Poll());
    SetCommand(7, {"/bin/coat-train", "--rank-dir", "/state/attempts/job1/1/0"});
    driver_.usage["GPU-b"] = {{7}, before + 20 * kGiB};
    EXPECT_FALSE(watch_.Poll());
    EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  }

  testing::TempDir dir_;
  FakeDriver driver_;
  ManualClock clock_;
  GpuWatch watch_{&driver_, {"GPU-a", "GPU-b"}, "/state", &clock_, dir_.path().string()};
};

TEST_F(GpuWatchTest, AGpuIsHeldUntilTheDriverLetsTheProcessGo) {
  SetCommand(7, {"/bin/coat-train", "--rank-dir", "/state/attempts/job1/1/0"});
  driver_.usage["GPU-b"].processes = {7};
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  SetCommand(7, {});  // ends: its memory is gone, the driver still cleans up
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  driver_.answers = false;
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  driver_.answers = true;
  driver_.usage.clear();
  EXPECT_TRUE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
  EXPECT_FALSE(watch_.Poll());
}

TEST_F(GpuWatchTest, AGpuIsHeldUntilTheMemoryIsBack) {
  Occupy(kGiB);
  driver_.usage["GPU-b"].processes.clear();
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  driver_.usage["GPU-b"].used_bytes = kGiB + GpuWatch::kToleratedBytes + 1;
  EXPECT_FALSE(watch_.Poll());
  driver_.usage["GPU-b"].used_bytes = kGiB + GpuWatch::kToleratedBytes;
  EXPECT_TRUE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
}

TEST_F(GpuWatchTest, BytesOfNewcomersAreNotOurs) {
  Occupy(0);
  driver_.usage["GPU-b"].processes = {50};
  EXPECT_TRUE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
}

TEST_F(GpuWatchTest, MemoryThatStaysHoldsAGpuForALimitedTime) {
  Occupy(0);
  driver_.usage["GPU-b"].processes.clear();
  clock_.now_ms += GpuWatch::kLongestWaitMs - 1;
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  clock_.now_ms += 1;
  EXPECT_TRUE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
}

TEST_F(GpuWatchTest, WhatWasThereBeforeTheDaemonIsJudgedByProcessesAlone) {
  SetCommand(7, {"/bin/coat-train", "--rank-dir", "/state/attempts/job1/1/0"});
  driver_.usage["GPU-b"] = {{7}, 20 * kGiB};
  EXPECT_FALSE(watch_.Poll());
  driver_.usage["GPU-b"].processes.clear();
  EXPECT_TRUE(watch_.Poll());
}

TEST_F(GpuWatchTest, ProcessesOfOthersDoNotCount) {
  SetCommand(8, {"python", "train.py"});
  SetCommand(9, {"/bin/coat-train", "--rank-dir", "/other/attempts/job1/1/0"});
  driver_.usage["GPU-a"] = {{8, 9, 10}, kGiB};
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
}

TEST_F(GpuWatchTest, WithoutADriverNothingIsHeld) {
  GpuWatch none(nullptr, {}, "/state", &clock_);
  EXPECT_FALSE(none.Poll());
  EXPECT_THAT(none.Holders(), IsEmpty());
}

}  // namespace
}  // namespace coat
