// What does not depend on the number of ranks, on CPUs and, by NCCL, on GPUs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/gpu.h"
#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"

namespace coat {
namespace {

using coatrack::v1::RankLaunch;
using testing::HookedModel;
using testing::RankResult;
using testing::RunWorld;

struct World {
  const char* device;
  int ranks;
};

class RanksTest : public ::testing::TestWithParam<World> {
 protected:
  static constexpr int64_t kSteps = 20;

  void SetUp() override {
    if (on_gpus()) COAT_NEEDS_GPUS(GetParam().ranks);
    spec_ = testing::TinyJob(dir_.file("data"));
    spec_.mutable_train()->set_steps(kSteps);
    spec_.mutable_train()->set_deterministic(true);
    spec_.mutable_checkpoint()->set_every_steps(1);  // compares the weights over ranks, too
    spec_.mutable_checkpoint()->set_keep(1);
    options_.data_root = dir_.file("data");
    options_.change_launch = [this](RankLaunch* launch) {
      if (on_gpus()) launch->set_device("cuda:" + std::to_string(launch->rank()));
    };
  }

  bool on_gpus() const { return std::string(GetParam().device) == "cuda"; }

  std::vector<RankResult> Run(int ranks) {
    options_.world_size = ranks;
    options_.checkpoint_dir = dir_.file("checkpoints-" + std::to_string(++runs_));
    std::vector<RankResult> results = RunWorld(spec_, options_);
    for (const RankResult& result : results) EXPECT_EQ(result.message, "");
    return results;
  }

  testing::TempDir dir_;
  coatrack::v1::JobSpec spec_;
  testing::WorldOptions options_;
  int runs_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Worlds, RanksTest,
                         ::testing::Values(World{"cpu", 2}, World{"cpu", 4}, World{"cuda", 1},
                                           World{"cuda", 2}, World{"cuda", 4}),
                         [](const auto& info) {
                           return info.param.device + std::to_string(info.param.ranks);
                         });

TEST_P(RanksTest, TwentyStepsAgreeWithOneRank) {
  const RankResult one = Run(1)[0];
  const std::vector<RankResult> ranks = Run(GetParam().ranks);
  for (const RankResult& rank : ranks) {
    EXPECT_EQ(rank.weights_hash, ranks[0].weights_hash);
    EXPECT_EQ(rank.moments, ranks[0].moments);
    EXPECT_EQ(rank.losses(), ranks[0].losses());
    for (int64_t step = 1; step <= kSteps; ++step) EXPECT_FALSE(rank.record(step).skipped());
  }
  // Step 1: four FP32 sums in another order. Later: rounding differences that FP8 codes enlarge.
  const double eps = std::numeric_limits<float>::epsilon();
  EXPECT_NEAR(*ranks[0].loss_of(1), *one.loss_of(1), 4 * eps * *one.loss_of(1));
  for (int64_t step = 2; step <= kSteps; ++step) {
    EXPECT_NEAR(*ranks[0].loss_of(step), *one.loss_of(step), 0.01 * *one.loss_of(step)) << step;
  }
}

TEST_P(RanksTest, NanOnTheLastRankSkipsOnAllAndKeepsEveryBit) {
  spec_.mutable_train()->set_steps(2);
  const RankResult before = Run(GetParam().ranks)[0];
  spec_.mutable_train()->set_steps(3);
  options_.after_build = [](Session* session) {
    const bool poison = session->rank() == session->world_size() - 1;
    session->model = std::make_unique<HookedModel>(
        std::move(session->model),
        [poison, ops = session->ops.get()](Model* model, int64_t, int64_t resets) {
          if (!poison || resets != 4) return;  // evaluation, step 1, 2, 3
          const float nan = NAN;
          ops->ToDevice(&nan, Tensor(model->parameters()[2].grad.data, DType::kF32, {1}));
          ops->Synchronize();
        });
  };
  for (const RankResult& rank : Run(GetParam().ranks)) {
    EXPECT_TRUE(rank.record(3).skipped());
    EXPECT_FALSE(rank.record(2).skipped());
    EXPECT_EQ(rank.state.applied_steps, 2);
    EXPECT_EQ(rank.weights_hash, before.weights_hash);
    EXPECT_EQ(rank.moments, before.moments);
  }
}

TEST_P(RanksTest, TimesOfTheSumsAreRecorded) {
  spec_.mutable_train()->set_steps(3);
  for (const RankResult& rank : Run(GetParam().ranks)) {
    const auto& record = rank.record(3);
    if (GetParam().ranks == 1) {
      EXPECT_FALSE(record.has_all_reduce_seconds());
      continue;
    }
    EXPECT_GT(record.all_reduce_seconds(), 0);
    EXPECT_LT(record.all_reduce_seconds(), 60);
    EXPECT_GE(record.all_reduce_wait_seconds(), 0);
    EXPECT_LT(record.all_reduce_wait_seconds(), 60);
  }
}

}  // namespace
}  // namespace coat
