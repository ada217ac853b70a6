#include "worker/trainer/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "configs/spec/writer.h"
#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/ops/device_info.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using coatrack::v1::JobSpec;
using coatrack::v1::Reason;
using coatrack::v1::StepRecord;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Process;
using testing::ReadFile;
using testing::RunProgram;
using testing::TempDir;
using testing::TinyJob;
using testing::WaitUntil;
using testing::WriteFile;

const char kTrain[] = COAT_BINARY_DIR "/bin/coat-train";

// Real processes: coat-train, a parent and a rank for each rank.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() : spec_(TinyJob(dir_.path())) { WriteJob(); }
  ~LauncherTest() override {
    for (const RankDirEntry& entry : ListRankDirs(out())) SignalRank(entry.path, SIGKILL);
  }
  void WriteJob() { WriteFile(dir_.file("job.yaml"), ToYaml(spec_)); }
  std::string out() const { return dir_.file("out"); }
  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> argv = {kTrain,      "--job", dir_.file("job.yaml"), "--out", out(),
                                     "--threads", "1"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  testing::ProcessOptions Logged() const {
    testing::ProcessOptions options;
    options.output_path = dir_.file("log");
    return options;
  }
  std::string Rank(int attempt, int rank) const { return RankDir(out(), "tiny", attempt, rank); }
  // Losses by step of all attempts; a later one replaces an earlier one.
  std::map<int64_t, double> Losses() const {
    std::map<int64_t, double> losses;
    for (const RankDirEntry& entry : ListRankDirs(out())) {
      if (entry.rank != 0) continue;
      const Result<RecordChunk> chunk = ReadRecords(entry.path, 0, 64 << 20);
      EXPECT_TRUE(chunk.ok()) << chunk.status().message();
      for (const StepRecord& record : chunk->records) {
        if (record.has_loss()) losses[record.step()] = record.loss();
      }
    }
    return losses;
  }
  int64_t NewestCheckpoint() const {
    const auto list = ListCheckpoints(out() + "/checkpoints", nullptr);
    return list.empty() ? -1 : list[0].step;
  }

  TempDir dir_;
  JobSpec spec_;
};

TEST_F(LauncherTest, TrainsToTheEndAndSaysSo) {
  const Finished run = RunProgram(Command({"--nproc", "2"}));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr("step 6/6  loss "));
  EXPECT_THAT(run.out, HasSubstr("optimizer state fp8_dre e4m3/e4m3"));
  EXPECT_THAT(run.out, HasSubstr("done: 6 steps, loss "));
  EXPECT_THAT(run.out, HasSubstr("checkpoint: " + out() + "/checkpoints/step-6.attempt-1\n"));
  EXPECT_EQ(ReadExit(Rank(1, 1))->reason(), Reason::REASON_COMPLETED);
  const auto manifest = ReadDataManifest(Rank(1, 1));
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->files(0).path(), "corpus.txt");
  // A second run must not write into the first one's checkpoints.
  const Finished again = RunProgram(Command({"--nproc", "2"}));
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("--resume"));
  const Finished quiet = RunProgram(
      Command({"--nproc", "2", "--quiet", "--out", dir_.file("second"), "--set=train.steps=1"}));
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST_F(LauncherTest, KilledRankEndsTheRunAndResumeContinuesBitwise) {
  spec_.mutable_train()->set_steps(120);
  spec_.mutable_checkpoint()->set_every_steps(10);
  spec_.mutable_checkpoint()->set_keep(2);
  WriteJob();
  const Finished whole = RunProgram(Command({"--nproc", "2", "--out", dir_.file("whole")}));
  ASSERT_EQ(whole.status, 0) << whole.err;
  {
    Process run(Command({"--nproc", "2"}), Logged());
    ASSERT_TRUE(WaitUntil([&] { return NewestCheckpoint() >= 10; }));
    ASSERT_TRUE(SignalRank(Rank(1, 1), SIGKILL).ok());
    EXPECT_EQ(run.Wait(std::chrono::seconds(20)), 1);
  }
  EXPECT_THAT(ReadFile(dir_.file("log")), HasSubstr("rank 1 failed (killed)"));
  EXPECT_FALSE(RankIsAlive(Rank(1, 0)));
  const Finished rest = RunProgram(Command({"--nproc", "2", "--resume"}));
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("resuming from "));
  const std::map<int64_t, double> pieces = Losses();
  EXPECT_EQ(pieces.size(), 120u);
  std::map<int64_t, double> expected;
  const Result<RecordChunk> records =
      ReadRecords(RankDir(dir_.file("whole"), "tiny", 1, 0), 0, 64 << 20);
  ASSERT_TRUE(records.ok());
  for (const StepRecord& record : records->records) {
    if (record.has_loss()) expected[record.step()] = record.loss();
  }
  EXPECT_EQ(pieces, expected);
}

TEST_F(LauncherTest, InterruptStopsAllRanksAtOneStepWithACheckpoint) {
  spec_.mutable_train()->set_steps(100'000);
  WriteJob();
  Process run(Command({"--nproc", "2"}), Logged());
  ASSERT_TRUE(WaitUntil([&] { return Losses().size() >= 3; }));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(std::chrono::seconds(20)), 130);
  const auto first = ReadExit(Rank(1, 0));
  const auto second = ReadExit(Rank(1, 1));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->reason(), Reason::REASON_STOPPED);
  EXPECT_EQ(second->reason(), Reason::REASON_STOPPED);
  EXPECT_EQ(first->last_step(), second->last_step());
  EXPECT_EQ(NewestCheckpoint(), first->last_step());
  EXPECT_THAT(ReadFile(dir_.file("log")), HasSubstr("go on with --resume"));
}

TEST_F(LauncherTest, ErrorsOfTheEngineAreShown) {
  fs::remove(dir_.file("corpus.txt"));
  const Finished run = RunProgram(Command({"--nproc", "2"}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("failed (user_error): "));
  EXPECT_THAT(run.err, HasSubstr("corpus.txt"));
  EXPECT_THAT(run.err, HasSubstr("/output.log"));
  for (const int rank : {0, 1}) EXPECT_FALSE(RankIsAlive(Rank(1, rank)));
}

TEST_F(LauncherTest, ModelThatDoesNotFitIsNotACrash) {
  spec_.mutable_model()->set_hidden_size(16384);
  spec_.mutable_model()->set_heads(128);
  spec_.mutable_model()->set_kv_heads(128);
  spec_.mutable_model()->set_head_size(128);
  spec_.mutable_model()->set_intermediate_size(65536);
  spec_.mutable_model()->set_layers(200);  // more than a trillion bytes of weights alone
  WriteJob();
  const Finished run = RunProgram(Command({}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("failed (out_of_device_memory): "));
}

TEST_F(LauncherTest, GpuJobWithoutEnoughGpusNamesTheRemedy) {
  const Result<int> gpus = CountCudaDevices();
  const std::string ranks = std::to_string(gpus.ok() ? *gpus + 1 : 1);
  const Finished run = RunProgram(Command(
      {"--set=resources.device=gpu", "--set=train.global_batch=" + ranks, "--nproc", ranks}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("resources."));
  EXPECT_THAT(run.err, HasSubstr("--set resources.device=cpu"));
  EXPECT_FALSE(fs::exists(out()));  // nothing was started
}

TEST_F(LauncherTest, BadJobNamesFileAndLine) {
  WriteFile(dir_.file("job.yaml"), ToYaml(spec_) + "stepz: 3\n");
  const Finished run = RunProgram(Command({}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("job.yaml:"));
  EXPECT_THAT(run.err, HasSubstr("stepz"));
  const Finished ranks = RunProgram(Command({"--nproc", "3"}));
  EXPECT_EQ(ranks.status, 1);
}

TEST_F(LauncherTest, UsageAndHelp) {
  EXPECT_EQ(RunProgram({kTrain, "--nonsense"}).status, 2);
  EXPECT_EQ(RunProgram({kTrain}).status, 2);
  const Finished help = RunProgram({kTrain, "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("usage: coat-train --job"));
  EXPECT_THAT(RunProgram({kTrain, "--version"}).out, HasSubstr("coat-train 0."));
  const Finished missing = RunProgram({kTrain, "--job", dir_.file("none.yaml")});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.yaml"));
  EXPECT_EQ(RunProgram({kTrain, "--rank-dir", dir_.file("no-rank")}).status, 1);
}

}  // namespace
}  // namespace coat
