// NUMERICS 3: `standard` and `lean`, and both ways of keeping FP8 weights, give the same bits.
#include <gtest/gtest.h>

#include "tests/worker/model/rig.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

struct Dimensions {
  const char* name;
  int64_t hidden, heads, kv_heads, intermediate, vocab, sequence, batch;
  bool tied;
};

const Dimensions kDimensions[] = {
    {"grouped_heads", 32, 4, 2, 48, 61, 16, 2, false},
    {"hidden_72", 72, 6, 6, 100, 257, 17, 1, false},
    {"one_position", 32, 4, 1, 40, 257, 1, 3, true},
    {"vocabulary_32003", 24, 2, 1, 33, 32003, 5, 1, false},
    {"vocabulary_32003_tied", 24, 2, 2, 33, 32003, 5, 1, true},
    {"vocabulary_50257", 24, 2, 1, 33, 50257, 3, 1, false},
    {"vocabulary_50257_tied", 24, 2, 2, 33, 50257, 3, 1, true},
    {"sequence_1000", 24, 2, 1, 33, 61, 1000, 1, false},
};

JobSpec Job(const Dimensions& d) {
  JobSpec spec = SmallJob();
  auto* model = spec.mutable_model();
  model->set_hidden_size(d.hidden);
  model->set_heads(d.heads);
  model->set_kv_heads(d.kv_heads);
  model->set_intermediate_size(d.intermediate);
  model->set_vocab_size(d.vocab);
  model->set_tie_embeddings(d.tied);
  spec.mutable_train()->set_sequence_length(d.sequence);
  spec.mutable_train()->set_micro_batch(d.batch);
  spec.mutable_train()->set_global_batch(d.batch);
  return spec;
}

class SaveMode : public ::testing::TestWithParam<Dimensions> {};

TEST_P(SaveMode, StandardAndLeanGiveTheSameGradients) {
  JobSpec job = Job(GetParam());
  job.mutable_precision()->set_save(SAVE_MODE_STANDARD);
  Rig standard(job);
  job.mutable_precision()->set_save(SAVE_MODE_LEAN);
  Rig lean(job);
  EXPECT_LT(lean.plan.activation_bytes_per_layer, standard.plan.activation_bytes_per_layer);
  const HostBatch batch = standard.Random(1);
  standard.Step(batch);
  lean.Step(batch);
  EXPECT_TRUE(standard.Finite());
  EXPECT_GT(Norm(standard.Gradients()), 0);
  EXPECT_EQ(standard.Nll(), lean.Nll());
  EXPECT_EQ(standard.GradientBytes(), lean.GradientBytes());
}

TEST_P(SaveMode, ResidentAndPerLayerWeightsGiveTheSameGradients) {
  JobSpec job = Job(GetParam());
  Rig per_layer(job);
  job.mutable_precision()->set_fp8_weights(FP8_WEIGHTS_RESIDENT);
  Rig resident(job);
  const HostBatch batch = per_layer.Random(2);
  per_layer.Step(batch);
  resident.Step(batch);
  EXPECT_EQ(per_layer.Nll(), resident.Nll());
  EXPECT_EQ(per_layer.GradientBytes(), resident.GradientBytes());
}

INSTANTIATE_TEST_SUITE_P(All, SaveMode, ::testing::ValuesIn(kDimensions),
                         [](const auto& info) { return std::string(info.param.name); });

class Reproducibility : public ::testing::TestWithParam<Recipe> {};

TEST_P(Reproducibility, TheSameMicrobatchTwiceGivesTheSameBits) {
  JobSpec job = SmallJob();
  job.mutable_precision()->set_recipe(GetParam());
  Rig rig(job);
  const HostBatch batch = rig.Random(3);
  rig.Step(batch);
  const double nll = rig.Nll();
  const std::vector<uint8_t> gradients = rig.GradientBytes();
  rig.Step(rig.Random(4));  // another one in between
  EXPECT_NE(gradients, rig.GradientBytes());
  rig.Step(batch);
  EXPECT_EQ(nll, rig.Nll());
  EXPECT_EQ(gradients, rig.GradientBytes());
}

// CASES, Numbers: "same input in microbatch 0 and 1". What the first one left behind (cached FP8
// weights, their scales) serves the second; the sum of two equal numbers is exact.
TEST_P(Reproducibility, TheSameInputInTwoMicrobatchesAddsTheSameBits) {
  for (const Fp8Weights weights : {FP8_WEIGHTS_PER_LAYER, FP8_WEIGHTS_RESIDENT}) {
    JobSpec job = SmallJob();
    job.mutable_precision()->set_recipe(GetParam());
    job.mutable_precision()->set_fp8_weights(weights);
    Rig rig(job);
    const HostBatch batch = rig.Random(7);
    rig.model->ResetStep();
    rig.Train(batch, 2 * ValidTargets(batch), true);
    const double nll = rig.Nll();
    const std::vector<float> once = rig.Gradients();
    rig.Train(batch, 2 * ValidTargets(batch), false);
    EXPECT_EQ(rig.Nll(), 2 * nll);
    const std::vector<float> twice = rig.Gradients();
    for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], 2 * once[i]) << i;
  }
}

// Whatever an earlier microbatch left in memory that does not outlive it has no influence.
TEST_P(Reproducibility, ReadsNothingThatItDidNotWrite) {
  JobSpec job = SmallJob();
  job.mutable_train()->set_sequence_length(9);  // N = 18: padded along the contraction
  job.mutable_precision()->set_recipe(GetParam());
  job.mutable_precision()->set_save(SAVE_MODE_STANDARD);
  Rig rig(job);
  const HostBatch batch = rig.Random(5);
  rig.Step(batch);
  const double nll = rig.Nll();
  const std::vector<uint8_t> gradients = rig.GradientBytes();
  for (const PlannedTensor& planned : rig.plan.tensors) {
    if (planned.kind != MemoryKind::kActivations && planned.name != "transients") continue;
    const Tensor tensor = rig.arena->Get(planned.name);
    std::memset(tensor.data, 0xFF, static_cast<size_t>(planned.bytes));  // NaN in every format
  }
  rig.Step(batch);
  EXPECT_EQ(nll, rig.Nll());
  EXPECT_EQ(gradients, rig.GradientBytes());
}

// Transients that share a place must not meet: the same bits when each has a place of its own.
TEST_P(Reproducibility, SharingPlacesChangesNothing) {
  JobSpec job = SmallJob();
  job.mutable_precision()->set_recipe(GetParam());
  Rig shared(job);
  Rig apart(job, [](MemoryPlan* plan) {
    for (PlannedTensor& planned : plan->tensors) {
      if (planned.bytes != 0) continue;
      planned.offset = plan->total_bytes;
      planned.bytes = 256 * 1024;
      plan->total_bytes += planned.bytes;
    }
  });
  const HostBatch batch = shared.Random(6);
  for (Rig* rig : {&shared, &apart}) {
    rig->model->ResetStep();
    for (int i = 0; i < 2; ++i) rig->Train(batch, 2 * ValidTargets(batch), i == 0);
  }
  EXPECT_EQ(shared.Nll(), apart.Nll());
  EXPECT_EQ(shared.GradientBytes(), apart.GradientBytes());
}

INSTANTIATE_TEST_SUITE_P(All, Reproducibility,
                         ::testing::Values(RECIPE_BF16, RECIPE_FP8, RECIPE_COAT),
                         [](const auto& info) { return Recipe_Name(info.param); });

}  // namespace
}  // namespace coat
