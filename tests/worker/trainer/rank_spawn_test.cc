#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/process.h"
#include "worker/trainer/rank_parent.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using coatrack::v1::RankExit;
using coatrack::v1::Reason;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::TempDir;
using testing::WaitUntil;
using testing::WriteFile;

// A program that plays the trainer: its ranks do as the text of `dir`/behaviour says.
const char kActor[] = COAT_BINARY_DIR "/tests/rank_actor";

class RankSpawnTest : public ::testing::Test {
 protected:
  std::string Start(const std::string& behaviour) {
    const std::string rank_dir = RankDir(dir_.path(), "job", 1, 0);
    WriteFile(rank_dir + "/behaviour", behaviour);
    const Status status = SpawnRank(rank_dir, kActor);
    EXPECT_TRUE(status.ok()) << status.message();
    return rank_dir;
  }
  void TearDown() override {
    for (const RankDirEntry& entry : ListRankDirs(dir_.path())) SignalRank(entry.path, SIGKILL);
  }
  RankExit ExitOf(const std::string& rank_dir) {
    EXPECT_TRUE(WaitUntil([&] { return !RankIsAlive(rank_dir); }));
    const Result<RankExit> exit = ReadExit(rank_dir);
    EXPECT_TRUE(exit.ok()) << exit.status().message();
    return exit.ok() ? *exit : RankExit();
  }

  TempDir dir_;
};

TEST_F(RankSpawnTest, LivesInASessionOfItsOwnUntilItEnds) {
  const std::string rank_dir = Start("wait");
  EXPECT_TRUE(RankIsAlive(rank_dir));
  ASSERT_TRUE(WaitUntil([&] {
    const Result<RankPids> pids = ReadRankPids(rank_dir);
    return pids.ok() && pids->rank > 0;
  }));
  const RankPids pids = *ReadRankPids(rank_dir);
  EXPECT_NE(::getsid(pids.parent), ::getsid(0));
  EXPECT_EQ(::getsid(pids.rank), ::getsid(pids.parent));
  EXPECT_EQ(RemoveRankDir(dir_.path(), ListRankDirs(dir_.path()).at(0)).code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(SpawnRank(rank_dir, kActor).code(), Code::kFailedPrecondition);
  WriteFile(rank_dir + "/behaviour", "finish");
  const RankExit exit = ExitOf(rank_dir);
  EXPECT_EQ(exit.reason(), Reason::REASON_COMPLETED);
  EXPECT_EQ(exit.exit_status(), 0);
  EXPECT_EQ(exit.last_step(), 42);
  EXPECT_EQ(SpawnRank(rank_dir, kActor).code(), Code::kFailedPrecondition);
  EXPECT_EQ(SignalRank(rank_dir, SIGKILL).code(), Code::kNotFound);
  EXPECT_TRUE(RemoveRankDir(dir_.path(), ListRankDirs(dir_.path()).at(0)).ok());
}

TEST_F(RankSpawnTest, KillIsNotACrash) {
  const std::string rank_dir = Start("wait");
  ASSERT_TRUE(SignalRank(rank_dir, SIGKILL).ok());
  const RankExit exit = ExitOf(rank_dir);
  EXPECT_EQ(exit.reason(), Reason::REASON_KILLED);
  EXPECT_EQ(exit.signal(), SIGKILL);
  EXPECT_EQ(exit.exit_status(), -1);
  EXPECT_FALSE(exit.host_oom());
  EXPECT_THAT(exit.message(), HasSubstr("signal 9"));
}

TEST_F(RankSpawnTest, SegmentationFaultIsACrash) {
  const RankExit exit = ExitOf(Start("crash"));
  EXPECT_EQ(exit.reason(), Reason::REASON_CRASHED);
  EXPECT_EQ(exit.signal(), SIGSEGV);
}

TEST_F(RankSpawnTest, ErrorOfTheEngineIsPassedOn) {
  const RankExit exit = ExitOf(Start("error"));
  EXPECT_EQ(exit.reason(), Reason::REASON_USER_ERROR);
  EXPECT_EQ(exit.exit_status(), 1);
  EXPECT_EQ(exit.message(), "corpus/a.txt: too short");
}

TEST_F(RankSpawnTest, SilentExitIsInternal) {
  const RankExit exit = ExitOf(Start("silent"));
  EXPECT_EQ(exit.reason(), Reason::REASON_INTERNAL);
  EXPECT_EQ(exit.exit_status(), 3);
  EXPECT_THAT(exit.message(), HasSubstr("status 3"));
}

TEST_F(RankSpawnTest, OutputGoesToTheFileWithoutAPipe) {
  const std::string rank_dir = Start("chatter");
  ExitOf(rank_dir);
  const std::string output = ReadFile(rank_dir + "/" + kOutputFile);
  EXPECT_THAT(output, HasSubstr("to stdout\n"));
  EXPECT_THAT(output, HasSubstr("to stderr"));
}

TEST_F(RankSpawnTest, OutputIsBoundedWhileTheRankLives) {
  const std::string rank_dir = Start("flood");
  ASSERT_TRUE(WaitUntil([&] { return OutputSize(rank_dir) == 24 << 20; }));
  EXPECT_TRUE(WaitUntil([&] {
    struct stat info {};
    return ::stat((rank_dir + "/" + kOutputFile).c_str(), &info) == 0 &&
           info.st_blocks * 512 <= kOutputLimitBytes;
  }));
  EXPECT_EQ(OutputSize(rank_dir), 24 << 20);  // offsets stay
  EXPECT_TRUE(ReadOutput(rank_dir, 0, 100)->truncated);
}

TEST_F(RankSpawnTest, SigtermBeforeItIsHandledIsNotLost) {
  const std::string rank_dir = Start("wait_for_sigterm");
  ASSERT_TRUE(SignalRank(rank_dir, SIGTERM).ok());
  const RankExit exit = ExitOf(rank_dir);
  EXPECT_EQ(exit.reason(), Reason::REASON_STOPPED);
}

TEST_F(RankSpawnTest, RankDiesWithItsParentAndIsThenLost) {
  const std::string rank_dir = Start("wait");
  ASSERT_TRUE(WaitUntil([&] {
    const Result<RankPids> pids = ReadRankPids(rank_dir);
    return pids.ok() && pids->rank > 0;
  }));
  const RankPids pids = *ReadRankPids(rank_dir);
  ASSERT_EQ(::kill(pids.parent, SIGKILL), 0);
  EXPECT_TRUE(WaitUntil([&] { return ::kill(pids.rank, 0) != 0; }));
  EXPECT_FALSE(RankIsAlive(rank_dir));
  EXPECT_EQ(ReadExit(rank_dir).status().code(), Code::kNotFound);
}

TEST_F(RankSpawnTest, MissingProgramIsNamed) {
  const std::string rank_dir = RankDir(dir_.path(), "job", 1, 0);
  fs::create_directories(rank_dir);
  const Status status = SpawnRank(rank_dir, dir_.file("no-such-trainer"));
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no-such-trainer"));
  EXPECT_FALSE(RankIsAlive(rank_dir));
}

TEST(ReasonOfSignal, TellsKillCrashAndOutOfMemoryApart) {
  EXPECT_EQ(ReasonOfSignal(SIGKILL, false), Reason::REASON_KILLED);
  EXPECT_EQ(ReasonOfSignal(SIGKILL, true), Reason::REASON_HOST_OOM);
  EXPECT_EQ(ReasonOfSignal(SIGTERM, false), Reason::REASON_KILLED);
  EXPECT_EQ(ReasonOfSignal(SIGABRT, false), Reason::REASON_CRASHED);
  EXPECT_EQ(ReasonOfSignal(SIGBUS, false), Reason::REASON_CRASHED);
}

}  // namespace
}  // namespace coat
