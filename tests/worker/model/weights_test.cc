// Copies of the weights follow the masters.
#include <gtest/gtest.h>

#include "tests/worker/model/rig.h"
#include "worker/model/declare.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

struct Choice {
  Recipe recipe;
  Fp8Weights fp8_weights;
  MasterWeights master;
  bool tied;
};

std::vector<Choice> AllChoices() {
  std::vector<Choice> all;
  for (const Recipe recipe : {RECIPE_BF16, RECIPE_FP8, RECIPE_COAT}) {
    for (const Fp8Weights weights : {FP8_WEIGHTS_PER_LAYER, FP8_WEIGHTS_RESIDENT}) {
      for (const MasterWeights master : {MASTER_WEIGHTS_FP32, MASTER_WEIGHTS_BF16_SR}) {
        const bool tied = master == MASTER_WEIGHTS_BF16_SR;
        all.push_back({recipe, weights, master, tied});
      }
    }
  }
  return all;
}

JobSpec Choose(const Choice& choice) {
  JobSpec spec = SmallJob();
  spec.mutable_model()->set_tie_embeddings(choice.tied);
  auto* precision = spec.mutable_precision();
  precision->set_recipe(choice.recipe);
  precision->set_fp8_weights(choice.fp8_weights);
  precision->set_master(choice.master);
  return spec;
}

class KeptWeights : public ::testing::TestWithParam<Choice> {};

// CASES, Numbers: "a cached FP8 weight used with a newer scale". After an update every GEMM, the
// transposed copies of the backward included, reads the new weights: the same bits as a model
// that was given the new masters and has seen nothing before.
TEST_P(KeptWeights, AfterAnUpdateTheNewOnesAreUsed) {
  const JobSpec job = Choose(GetParam());
  Rig trained(job);
  const std::unique_ptr<Optimizer> optimizer =
      CreateOptimizer(trained.spec, trained.model.get(), trained.ops.get(), trained.arena.get());
  const HostBatch batch = trained.Random(21);
  trained.Step(batch);
  const std::vector<uint8_t> before = trained.GradientBytes();
  optimizer->Step(1, trained.model->nonfinite(), trained.arena->Get(kBatchInverseCount));
  ASSERT_EQ(optimizer->ReadState().apply, 1);
  trained.model->WeightsUpdated();
  trained.Step(batch);
  EXPECT_NE(before, trained.GradientBytes());

  Rig fresh(job);
  fresh.CopyMasters(trained);
  fresh.Step(batch);
  EXPECT_EQ(trained.Nll(), fresh.Nll());
  EXPECT_EQ(trained.GradientBytes(), fresh.GradientBytes());
}

// A step that is skipped leaves what is kept of the weights valid.
TEST_P(KeptWeights, AfterASkippedUpdateNothingChanges) {
  Rig rig(Choose(GetParam()));
  const std::unique_ptr<Optimizer> optimizer =
      CreateOptimizer(rig.spec, rig.model.get(), rig.ops.get(), rig.arena.get());
  const HostBatch batch = rig.Random(22);
  rig.Step(batch);
  const std::vector<uint8_t> before = rig.GradientBytes();
  HostBatch masked = batch;
  for (int32_t& target : masked.targets) target = -1;
  rig.Step(masked);
  optimizer->Step(1, rig.model->nonfinite(), rig.arena->Get(kBatchInverseCount));
  ASSERT_EQ(optimizer->ReadState().apply, 0);
  rig.model->WeightsUpdated();
  rig.Step(batch);
  EXPECT_EQ(before, rig.GradientBytes());
}

TEST_P(KeptWeights, CopiesAreRoundedMasters) {
  Rig rig(Choose(GetParam()));
  for (const Parameter& parameter : rig.model->parameters()) {
    const std::vector<float> master = Read(parameter.master);
    float largest = 0;
    for (const float value : master) largest = std::max(largest, std::fabs(value));
    if (!parameter.amax.empty()) {
      EXPECT_EQ(Read(parameter.amax)[0], largest) << parameter.name;
    }
    if (parameter.copy.empty()) continue;
    const std::vector<float> copy = Read(parameter.copy);
    for (size_t i = 0; i < master.size(); ++i) {
      ASSERT_EQ(copy[i], RoundToBf16(master[i])) << parameter.name << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KeptWeights, ::testing::ValuesIn(AllChoices()), [](const auto& info) {
  return Recipe_Name(info.param.recipe) + "_" + Fp8Weights_Name(info.param.fp8_weights) + "_" +
         MasterWeights_Name(info.param.master);
});

TEST(Parameters, AreNamedSizedAndNumberedForCheckpoints) {
  Rig rig(SmallJob());
  std::vector<std::string> names;
  for (const Parameter& parameter : rig.model->parameters()) {
    EXPECT_EQ(parameter.id, names.size());
    EXPECT_EQ(parameter.decay, parameter.shape.size() == 2);
    names.push_back(parameter.name);
  }
  const std::vector<std::string> expected = {"embedding",
                                             "layers.0.attention_norm",
                                             "layers.0.qkv",
                                             "layers.0.output",
                                             "layers.0.mlp_norm",
                                             "layers.0.gate_up",
                                             "layers.0.down",
                                             "layers.1.attention_norm",
                                             "layers.1.qkv",
                                             "layers.1.output",
                                             "layers.1.mlp_norm",
                                             "layers.1.gate_up",
                                             "layers.1.down",
                                             "final_norm",
                                             "head"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(rig.Find("layers.0.qkv").shape, (std::vector<int64_t>{32 + 2 * 16, 32}));
  EXPECT_EQ(rig.Find("layers.1.gate_up").shape, (std::vector<int64_t>{96, 32}));
  EXPECT_EQ(rig.Find("layers.1.down").shape, (std::vector<int64_t>{32, 48}));
}

// cuBLASLt reads scales at multiples of 16 bytes only.
TEST(Parameters, ScalarsOfGemmsAreAligned) {
  Rig rig(SmallJob());
  for (const char* name : {"weights.scales", "activations.scales", "gradients.scales"}) {
    const Tensor table = rig.arena->Get(name);
    const void* before = nullptr;
    for (int64_t layer = 0; layer < 2; ++layer) {
      for (const Linear linear : kAllLinears) {
        const Tensor scalar = LinearScalar(table, layer, linear);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(scalar.data) % 16, 0u);
        EXPECT_NE(scalar.data, before);
        EXPECT_LT(scalar.as<float>(), table.as<float>() + table.numel());
        before = scalar.data;
      }
    }
  }
}

TEST(Parameters, ATiedHeadIsStoredOnce) {
  JobSpec job = SmallJob();
  job.mutable_model()->set_tie_embeddings(true);
  Rig rig(job);
  EXPECT_EQ(rig.model->parameters().size(), 14u);
  EXPECT_THROW(rig.Find("head"), Error);
  EXPECT_EQ(rig.plan.parameters, 61 * 32 + 2 * (64 * 32 + 32 * 32 + 3 * 48 * 32 + 2 * 32) + 32);
}

}  // namespace
}  // namespace coat
