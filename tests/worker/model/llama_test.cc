// Behaviour of whole microbatches.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/worker/model/rig.h"
#include "worker/model/model.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

class Llamas : public ::testing::TestWithParam<Recipe> {
 protected:
  static JobSpec Job() {
    JobSpec job = SmallJob();
    job.mutable_precision()->set_recipe(GetParam());
    return job;
  }
};

TEST_P(Llamas, LossStartsAtTheLogarithmOfTheVocabulary) {
  JobSpec job = Job();
  job.mutable_model()->set_init_std(0.02);
  job.mutable_model()->set_vocab_size(257);
  Rig rig(job);
  const HostBatch batch = rig.Random(31);
  rig.Step(batch);
  // Logits are N(0, 0.02^2 d) with d = 32: exp(x) has mean exp(0.0064), targets are random.
  EXPECT_NEAR(rig.Nll() / 32, std::log(257.0), 0.1);
}

TEST_P(Llamas, EvaluationGivesTheLossOfTraining) {
  Rig rig(Job());
  const HostBatch batch = rig.Random(32);
  rig.Step(batch);
  const double trained = rig.Nll();
  rig.model->ResetStep();
  const auto gradients = rig.Gradients();
  EXPECT_EQ(rig.Evaluate(batch), trained);
  EXPECT_EQ(rig.Gradients(), gradients);  // evaluation adds no gradient
}

TEST_P(Llamas, AFullyMaskedMicrobatchAddsNothing) {
  Rig rig(Job());
  const HostBatch batch = rig.Random(33);
  HostBatch masked = batch;
  std::fill(masked.targets.begin(), masked.targets.end(), -1);

  rig.Step(masked);  // no valid target anywhere: 1 / M is given as 0
  EXPECT_EQ(rig.Nll(), 0);
  EXPECT_EQ(Norm(rig.Gradients()), 0);
  EXPECT_TRUE(rig.Finite());

  rig.Step(batch);
  const double nll = rig.Nll();
  const std::vector<float> gradients = rig.Gradients();
  rig.Train(masked, ValidTargets(batch), false);
  EXPECT_EQ(rig.Nll(), nll);
  EXPECT_EQ(rig.Gradients(), gradients);
  EXPECT_TRUE(rig.Finite());
}

TEST_P(Llamas, MaskedPositionsHaveNoInfluence) {
  Rig rig(Job());
  HostBatch batch = rig.Random(34);
  // The last position of each sequence predicts nothing and nothing attends to it.
  for (const size_t last : {15u, 31u}) batch.targets[last] = -1;
  HostBatch other = batch;
  for (const size_t last : {15u, 31u}) other.tokens[last] = (batch.tokens[last] + 1) % 61;
  rig.Step(batch);
  const double nll = rig.Nll();
  rig.Step(other);
  // Per-tensor scales see the masked rows: equal up to the recipe's precision, bitwise for bf16.
  const double tolerance = GetParam() == RECIPE_BF16 ? 0 : 0.01 * nll;
  EXPECT_NEAR(rig.Nll(), nll, tolerance);
}

// Uneven masks: the loss is a mean over tokens, not over microbatches.
TEST_P(Llamas, MicrobatchesAddUpToTheBigBatch) {
  JobSpec job = Job();
  job.mutable_model()->set_init_std(0.1);
  job.mutable_train()->set_micro_batch(4);
  job.mutable_train()->set_global_batch(4);
  Rig big(job);
  job.mutable_train()->set_micro_batch(1);
  Rig small(job);
  HostBatch batch = big.Random(35);
  for (size_t i = 0; i < 13; ++i) batch.targets[i] = -1;
  const int64_t valid = ValidTargets(batch);
  big.Step(batch);
  small.model->ResetStep();
  for (size_t i = 0; i < 4; ++i) {
    const auto part = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + 16 * i, all.begin() + 16 * (i + 1));
    };
    small.Train({part(batch.tokens), part(batch.targets)}, valid, i == 0);
  }
  // bf16: the same products, summed in FP32 in another order, while every row is rounded alike.
  // FP8: each microbatch has its own scales, so both gradients are off from the exact one by up to
  // 0.2 (gradient_test.cc), independently.
  const double tolerance = GetParam() == RECIPE_BF16 ? 1e-5 : 0.2 * std::sqrt(2.0);
  EXPECT_LT(RelativeError(small.Gradients(), big.Gradients()), tolerance);
  EXPECT_NEAR(small.Nll(), big.Nll(), (GetParam() == RECIPE_BF16 ? 1e-6 : 0.01) * big.Nll());
}

TEST_P(Llamas, LearnsATinySet) {
  JobSpec job = Job();
  job.mutable_model()->set_init_std(0.02);
  job.mutable_train()->set_steps(60);
  Rig rig(job);
  const std::unique_ptr<Optimizer> optimizer =
      CreateOptimizer(rig.spec, rig.model.get(), rig.ops.get(), rig.arena.get());
  const HostBatch batch = rig.Random(36);
  const double before = rig.Evaluate(batch);
  for (int64_t step = 1; step <= 60; ++step) {
    rig.Step(batch);
    optimizer->Step(step, rig.model->nonfinite(), rig.arena->Get(kBatchInverseCount));
    rig.model->WeightsUpdated();
  }
  EXPECT_LT(rig.Evaluate(batch), 0.1 * before);
}

TEST_P(Llamas, AnInfiniteWeightRaisesTheFlag) {
  Rig rig(Job());
  const HostBatch batch = rig.Random(37);
  rig.Step(batch);
  EXPECT_TRUE(rig.Finite());
  rig.Find("layers.1.mlp_norm").master.as<float>()[5] = std::numeric_limits<float>::infinity();
  rig.model->WeightsChanged();
  rig.Step(batch);
  // bf16 has no scales: there the gradients themselves say it.
  EXPECT_FALSE(rig.Finite() && std::isfinite(Norm(rig.Gradients())));
}

INSTANTIATE_TEST_SUITE_P(All, Llamas, ::testing::Values(RECIPE_BF16, RECIPE_FP8, RECIPE_COAT),
                         [](const auto& info) { return Recipe_Name(info.param); });

// Columns between the vocabulary and the stride of the logits.
TEST(Llama, PaddedLogitsNeverEnterTheSoftmax) {
  JobSpec job = SmallJob();
  job.mutable_model()->set_vocab_size(257);
  Rig rig(job);
  const HostBatch batch = rig.Random(41);
  rig.Step(batch);
  const double nll = rig.Nll();
  const std::vector<uint8_t> gradients = rig.GradientBytes();
  const Tensor logits = rig.arena->Get("head.logits");
  ASSERT_EQ(logits.ld, 272);
  const Tensor padding(logits.data, DType::kBF16, {logits.rows(), logits.ld});
  std::fill_n(padding.as<uint16_t>(), padding.numel(), uint16_t{0x7F00});  // 1.7e38
  rig.Step(batch);
  EXPECT_EQ(rig.Nll(), nll);
  EXPECT_EQ(rig.GradientBytes(), gradients);
}

TEST(Llama, ChunksOfLogitsChangeNothingButRounding) {
  JobSpec job = SmallJob();
  Rig whole(job);
  job.mutable_train()->set_loss_chunk_rows(5);  // 32 rows: six chunks and two rows
  Rig chunked(job);
  const HostBatch batch = whole.Random(42);
  whole.Step(batch);
  chunked.Step(batch);
  EXPECT_NEAR(chunked.Nll(), whole.Nll(), 1e-6 * whole.Nll());
  EXPECT_LT(RelativeError(chunked.Gradients(), whole.Gradients()), 1e-5);
  EXPECT_LT(chunked.arena->Get("head.logits").rows(), whole.arena->Get("head.logits").rows());
}

TEST(Llama, ALayerMayHaveAnotherRecipe) {
  JobSpec job = SmallJob();
  job.mutable_model()->set_layers(4);
  Rig coat(job);
  const HostBatch batch = coat.Random(43);
  coat.Step(batch);
  const Recipe recipes[] = {RECIPE_BF16, RECIPE_COAT, RECIPE_FP8, RECIPE_BF16};
  for (int i = 0; i < 4; ++i) {
    auto* entry = job.mutable_precision()->add_overrides();
    entry->set_layer(std::to_string(i));
    entry->set_recipe(recipes[i]);
  }
  Rig mixed(job);
  job.mutable_precision()->clear_overrides();
  job.mutable_precision()->set_recipe(RECIPE_BF16);
  Rig bf16(job);
  mixed.Step(batch);
  bf16.Step(batch);
  const double mixed_error = RelativeError(mixed.Gradients(), bf16.Gradients());
  EXPECT_GT(mixed_error, 0);
  EXPECT_LT(mixed_error, RelativeError(coat.Gradients(), bf16.Gradients()));
  // Overrides that name the job's own recipe change no bit.
  job.mutable_precision()->set_recipe(RECIPE_COAT);
  for (const char* layer : {"first", "last", "1", "2"}) {
    auto* entry = job.mutable_precision()->add_overrides();
    entry->set_layer(layer);
    entry->set_recipe(RECIPE_COAT);
  }
  Rig same(job);
  same.Step(batch);
  EXPECT_EQ(same.GradientBytes(), coat.GradientBytes());
}

// CASES, Numbers: the sum of 256 microbatch gradients.
TEST(Llama, TwoHundredFiftySixMicrobatchesAddUpInFp32) {
  JobSpec job = SmallJob();
  job.mutable_train()->set_micro_batch(1);
  Rig rig(job);
  Rig single(job);
  constexpr int kMicrobatches = 256;
  const int64_t valid = kMicrobatches * rig.tokens();
  std::vector<double> sum(rig.Gradients().size(), 0.0);
  rig.model->ResetStep();
  for (uint32_t i = 0; i < kMicrobatches; ++i) {
    const HostBatch batch = rig.Random(100 + i);
    rig.Train(batch, valid, i == 0);
    single.model->ResetStep();
    single.Train(batch, valid);
    const std::vector<float> part = single.Gradients();
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += part[k];
  }
  // Each of the 256 additions rounds to 2^-24 of the running sum.
  const std::vector<float> exact(sum.begin(), sum.end());
  EXPECT_LT(RelativeError(rig.Gradients(), exact), 256 * 0x1p-24);
}

TEST(Llama, Bf16GradientsAreRoundedFp32Gradients) {
  JobSpec job = SmallJob();
  Rig fp32(job);
  job.mutable_precision()->set_gradients(GRADIENT_FORMAT_BF16);
  Rig bf16(job);
  const HostBatch batch = fp32.Random(44);
  fp32.Step(batch);
  bf16.Step(batch);
  for (const Parameter& parameter : bf16.model->parameters()) {
    const std::vector<float> exact = Read(fp32.Find(parameter.name).grad);
    const std::vector<float> rounded = Read(parameter.grad);
    for (size_t i = 0; i < exact.size(); ++i) {
      const float expected =
          parameter.grad.dtype == DType::kBF16 ? RoundToBf16(exact[i]) : exact[i];
      ASSERT_EQ(rounded[i], expected) << parameter.name << " element " << i;
    }
  }
  EXPECT_EQ(bf16.Find("layers.0.qkv").grad.dtype, DType::kBF16);
  EXPECT_EQ(bf16.Find("embedding").grad.dtype, DType::kBF16);
  EXPECT_EQ(bf16.Find("head").grad.dtype, DType::kF32);
}

TEST(Llama, FlopsPerTokenAreCountedFromTheShapes) {
  const JobSpec spec = WithDefaults(SmallJob());
  const double block = (64 + 32) * 32 + 3 * 48 * 32;
  EXPECT_DOUBLE_EQ(TrainFlopsPerToken(spec), 6 * (2 * block + 61 * 32) + 6 * 2 * 16 * 32);
}

TEST(Llama, TokenOrderSortsByTokenThenPosition) {
  EXPECT_EQ(TokenOrder({3, 1, 3, 0, 1}), (std::vector<int32_t>{3, 1, 4, 0, 2}));
  EXPECT_TRUE(TokenOrder({}).empty());
}

TEST(Llama, AMissingDimensionIsNamed) {
  JobSpec spec = WithDefaults(SmallJob());
  spec.mutable_model()->clear_intermediate_size();
  try {
    TrainFlopsPerToken(spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("model.intermediate_size"), std::string::npos);
  }
}

}  // namespace
}  // namespace coat
