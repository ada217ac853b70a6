#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/trainer/checkpointing.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using coatrack::v1::JobSpec;
using coatrack::v1::StepRecord;
using ::testing::HasSubstr;
using testing::RankResult;
using testing::RunWorld;
using testing::TempDir;
using testing::TinyJob;
using testing::WorldOptions;

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() : spec_(TinyJob(dir_.file("data"))) {
    options_.data_root = dir_.file("data");
    options_.checkpoint_dir = dir_.file("checkpoints");
    // A few sequences an epoch, so that steps cross the ends of epochs.
    testing::WriteFile(dir_.file("data/corpus.txt"),
                       "the quick brown fox jumps over the lazy dog; pack my box with five dozen "
                       "liquor jugs; how vexingly quick daft zebras jump\n");
    spec_.mutable_train()->set_steps(5);
    spec_.mutable_checkpoint()->set_every_steps(1);
  }
  std::string StepDir(int64_t step, int attempt = 1) const {
    return options_.checkpoint_dir + "/step-" + std::to_string(step) + ".attempt-" +
           std::to_string(attempt);
  }
  std::vector<RankResult> Run(int world_size) {
    options_.world_size = world_size;
    std::vector<RankResult> results = RunWorld(spec_, options_);
    for (const RankResult& result : results) EXPECT_EQ(result.message, "");
    return results;
  }

  TempDir dir_;
  JobSpec spec_;
  WorldOptions options_;
};

TEST_F(ResumeTest, AtAnyStepIsBitwiseAsWithoutInterruption) {
  const RankResult whole = Run(2)[0];
  EXPECT_GE(whole.state.position.epoch, 2);  // the corpus is that small
  for (int64_t step = 0; step < 5; ++step) {
    if (step == 0) continue;
    options_.resume_dir = StepDir(step);
    options_.attempt = static_cast<int>(step) + 1;
    const RankResult rest = Run(2)[0];
    EXPECT_EQ(rest.losses().size(), static_cast<size_t>(5 - step));
    for (int64_t s = step + 1; s <= 5; ++s) EXPECT_EQ(rest.loss_of(s), whole.loss_of(s)) << s;
    EXPECT_EQ(rest.weights_hash, whole.weights_hash);
    EXPECT_EQ(rest.moments, whole.moments);
    EXPECT_EQ(rest.state.tokens_total, whole.state.tokens_total);
    EXPECT_EQ(rest.state.applied_steps, whole.state.applied_steps);
    EXPECT_EQ(rest.record(5).validation_loss(), whole.record(5).validation_loss());
    EXPECT_GT(rest.record(step + 1).memory_size(), 0);  // each attempt shows its memory at once
  }
}

TEST_F(ResumeTest, EveryOptimizerStateAndMasterSurvives) {
  using coatrack::v1::MasterWeights;
  using coatrack::v1::OptimizerState;
  spec_.mutable_train()->set_steps(3);
  int attempt = 1;
  for (const auto state :
       {OptimizerState::OPTIMIZER_STATE_FP8, OptimizerState::OPTIMIZER_STATE_BF16,
        OptimizerState::OPTIMIZER_STATE_FP32, OptimizerState::OPTIMIZER_STATE_FP8_DRE}) {
    spec_.mutable_precision()->set_optimizer_state(state);
    spec_.mutable_precision()->set_master(attempt % 4 == 1 ? MasterWeights::MASTER_WEIGHTS_BF16_SR
                                                           : MasterWeights::MASTER_WEIGHTS_FP32);
    options_.checkpoint_dir = dir_.file("checkpoints-" + std::to_string(state));
    options_.resume_dir.clear();
    options_.attempt = attempt++;
    const RankResult whole = Run(1)[0];
    options_.resume_dir = StepDir(1, options_.attempt);
    options_.attempt = attempt++;
    const RankResult rest = Run(1)[0];
    EXPECT_EQ(rest.loss_of(3), whole.loss_of(3)) << state;
    EXPECT_EQ(rest.weights_hash, whole.weights_hash) << state;
    EXPECT_EQ(rest.moments, whole.moments) << state;
  }
}

TEST_F(ResumeTest, SavedByTwoRanksLoadedByOneAndFour) {
  const RankResult two = Run(2)[0];
  for (const int world_size : {1, 4}) {
    options_.resume_dir = StepDir(5);
    options_.attempt = 1 + world_size;
    for (const RankResult& rank : Run(world_size)) {
      EXPECT_EQ(rank.weights_hash, two.weights_hash);
      EXPECT_EQ(rank.moments, two.moments);
      EXPECT_EQ(rank.state.position.index, two.state.position.index);
    }
  }
}

TEST_F(ResumeTest, StopRequestOfOneRankStopsAllAtTheSameStepWithACheckpoint) {
  const RankResult whole = Run(2)[0];
  for (const int64_t ahead : {0, 1}) {
    options_.after_build = [ahead](Session* session) { session->steps_ahead = ahead; };
    fs::remove_all(options_.checkpoint_dir);
    spec_.mutable_checkpoint()->set_every_steps(0);
    options_.on_record = [](int rank, const StepRecord& record, std::atomic<bool>* stop) {
      if (rank == 1 && record.step() == 3) *stop = true;
    };
    const std::vector<RankResult> stopped = Run(2);
    options_.on_record = nullptr;
    const int64_t step = stopped[0].state.step;
    EXPECT_GE(step, 3);
    EXPECT_EQ(stopped[0].losses().size(), static_cast<size_t>(step));
    EXPECT_LT(step, 5);
    for (const RankResult& rank : stopped) {
      EXPECT_EQ(rank.outcome, Outcome::kStopped);
      EXPECT_EQ(rank.state.step, step);
    }
    EXPECT_EQ(stopped[0].records.back().phase(), coatrack::v1::PHASE_DONE);
    options_.resume_dir = StepDir(step);
    options_.attempt = 2;
    const RankResult rest = Run(2)[0];
    EXPECT_EQ(rest.outcome, Outcome::kCompleted);
    EXPECT_EQ(rest.weights_hash, whole.weights_hash);
    EXPECT_EQ(rest.loss_of(5), whole.loss_of(5));
    options_.resume_dir.clear();
    options_.attempt = 1;
  }
}

TEST_F(ResumeTest, CheckpointsAreRecordedAndRetained) {
  spec_.mutable_checkpoint()->set_keep(2);
  const std::vector<RankResult> ranks = Run(2);
  std::vector<std::string> left;
  for (const CheckpointInfo& info : ListCheckpoints(options_.checkpoint_dir, nullptr)) {
    left.push_back(info.path);
    EXPECT_TRUE(info.finite);
    EXPECT_FALSE(info.spec_hash.empty());
  }
  EXPECT_THAT(left, ::testing::ElementsAre(StepDir(5), StepDir(4)));
  int saved = 0;
  for (const StepRecord& record : ranks[0].records) {
    if (record.checkpoint().empty()) continue;
    ++saved;
    EXPECT_EQ(record.checkpoint(), StepDir(record.step()));
    EXPECT_GT(record.checkpoint_bytes(), 0);
    EXPECT_EQ(record.weights_hash().size(), 64u);
    EXPECT_EQ(record.phase(), coatrack::v1::PHASE_SAVE);
  }
  EXPECT_EQ(saved, 5);
}

TEST_F(ResumeTest, NewestWithFiniteLossesOutlivesLaterOnes) {
  spec_.mutable_checkpoint()->set_keep(1);
  options_.after_build = [](Session* session) {
    session->model = std::make_unique<testing::HookedModel>(
        std::move(session->model), [](Model* model, int64_t, int64_t resets) {
          if (resets >= 5) *model->nll().as<float>() = NAN;  // evaluation, steps 1 to 3, then
        });
  };
  Run(2);
  std::map<int64_t, bool> finite;
  for (const CheckpointInfo& info : ListCheckpoints(options_.checkpoint_dir, nullptr)) {
    finite[info.step] = info.finite;
  }
  EXPECT_EQ(finite, (std::map<int64_t, bool>{{3, true}, {5, false}}));
}

TEST_F(ResumeTest, PinnedCheckpointsStay) {
  spec_.mutable_checkpoint()->set_keep(1);
  options_.after_build = [this](Session* session) {
    session->pinned = [this] { return std::vector<std::string>{fs::path(StepDir(2)).filename()}; };
  };
  Run(1);
  EXPECT_TRUE(fs::exists(StepDir(2)));
  EXPECT_FALSE(fs::exists(StepDir(1)));
}

TEST_F(ResumeTest, OtherModelOrStateIsRefusedByName) {
  Run(1);
  options_.resume_dir = StepDir(5);
  options_.attempt = 2;
  JobSpec other = spec_;
  other.mutable_model()->set_intermediate_size(64);
  RankResult result = RunWorld(other, options_)[0];
  EXPECT_EQ(result.code, Code::kInvalidArgument);
  EXPECT_THAT(result.message, HasSubstr("'layers.0.gate_up'"));
  other = spec_;
  other.mutable_precision()->set_optimizer_state(coatrack::v1::OPTIMIZER_STATE_FP32);
  result = RunWorld(other, options_)[0];
  EXPECT_EQ(result.code, Code::kInvalidArgument);
  EXPECT_THAT(result.message, HasSubstr(".m.values'"));
  EXPECT_THAT(result.message, HasSubstr("precision settings"));
}

TEST_F(ResumeTest, InitTakesTheWeightsAlone) {
  const RankResult first = Run(1)[0];
  options_.checkpoint_dir = dir_.file("second");
  options_.init_dir = dir_.file("checkpoints/step-5.attempt-1");
  const RankResult second = Run(2)[0];
  EXPECT_EQ(second.record(0).weights_hash(), first.weights_hash);
  EXPECT_EQ(second.record(0).validation_loss(), first.record(5).validation_loss());
  EXPECT_EQ(second.losses().size(), 5u);
  EXPECT_EQ(second.state.applied_steps, 5);
  // Into BF16 masters: converted, not refused.
  spec_.mutable_precision()->set_master(coatrack::v1::MASTER_WEIGHTS_BF16_SR);
  options_.checkpoint_dir = dir_.file("third");
  const RankResult third = Run(1)[0];
  EXPECT_NEAR(third.record(0).validation_loss(), first.record(5).validation_loss(), 0.05);
}

// Files larger than the limit cannot be written: stands in for a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    Set(bytes);
  }
  ~FileSizeLimit() { Lift(); }
  void Lift() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  void Set(rlim_t bytes) {
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  rlimit before_{};
};

TEST_F(ResumeTest, FullDiskCostsACheckpointNotTheRun) {
  FileSizeLimit limit(4096);
  options_.on_record = [&](int rank, const StepRecord& record, std::atomic<bool>*) {
    if (rank == 0 && record.step() == 4 && record.tokens() > 0) limit.Lift();
  };
  const RankResult result = Run(2)[0];
  EXPECT_EQ(result.outcome, Outcome::kCompleted);
  EXPECT_FALSE(fs::exists(StepDir(1)));
  EXPECT_TRUE(fs::exists(StepDir(5)));
}

TEST_F(ResumeTest, FullDiskAtTheEndIsAnErrorOnAllRanks) {
  spec_.mutable_checkpoint()->set_every_steps(0);
  options_.world_size = 2;
  const FileSizeLimit limit(4096);
  for (const RankResult& rank : RunWorld(spec_, options_)) {
    EXPECT_EQ(rank.code, Code::kResourceExhausted);
    EXPECT_NE(rank.message, "");
  }
  EXPECT_TRUE(ListCheckpoints(options_.checkpoint_dir, nullptr).empty());
}

TEST_F(ResumeTest, RanksWithDifferentDataAreRefused) {
  testing::WriteFile(dir_.file("other/corpus.txt"), std::string(500, 'x'));
  options_.world_size = 2;
  options_.change_launch = [this](coatrack::v1::RankLaunch* launch) {
    if (launch->rank() == 1) launch->set_data_root(dir_.file("other"));
  };
  for (const RankResult& rank : RunWorld(spec_, options_)) {
    EXPECT_EQ(rank.code, Code::kDataChanged);
    EXPECT_THAT(rank.message, HasSubstr("rank 1"));
  }
}

}  // namespace
}  // namespace coat
