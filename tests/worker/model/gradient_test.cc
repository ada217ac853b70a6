// Gradients of the whole model: against FP64, and FP8 recipes against bf16.
#include <gtest/gtest.h>

#include "tests/worker/model/reference_model.h"
#include "tests/worker/model/rig.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

JobSpec TinyJob(bool tied) {
  JobSpec spec = SmallJob();
  auto* model = spec.mutable_model();
  model->set_hidden_size(16);
  model->set_heads(4);
  model->set_kv_heads(2);
  model->set_intermediate_size(20);
  model->set_vocab_size(13);
  model->set_init_std(0.3);
  model->set_tie_embeddings(tied);
  spec.mutable_train()->set_sequence_length(5);
  spec.mutable_train()->set_loss_chunk_rows(4);  // 10 rows: two whole chunks and a short one
  spec.mutable_precision()->set_recipe(RECIPE_BF16);
  return spec;
}

// The BF16 operators then work on the very weights that FP64 sees; gains away from 1.
void PrepareWeights(Rig* rig, ReferenceModel* reference) {
  for (const Parameter& parameter : rig->model->parameters()) {
    float* master = parameter.master.as<float>();
    auto& values = reference->weights[parameter.name];
    for (int64_t i = 0; i < parameter.master.numel(); ++i) {
      if (!parameter.decay) master[i] = 1.0f + 0.25f * std::sin(static_cast<float>(i));
      master[i] = RoundToBf16(master[i]);
      values.push_back(master[i]);
    }
  }
  rig->model->WeightsChanged();
}

class AgainstFp64 : public ::testing::TestWithParam<bool> {};

TEST_P(AgainstFp64, GradientsAreThoseOfFiniteDifferences) {
  Rig rig(TinyJob(GetParam()));
  ReferenceModel reference(ResolveShape(rig.spec));
  PrepareWeights(&rig, &reference);
  HostBatch batch = rig.Random(11);
  batch.targets[3] = -1;
  const auto valid = static_cast<double>(ValidTargets(batch));
  rig.Step(batch);
  const auto loss = [&] { return reference.Nll(batch.tokens, batch.targets); };
  // A logit is rounded to BF16 once, and so is each of the 2 + 4 x 2 layers' tensors it depends on.
  const double kEps = 0x1p-9;
  EXPECT_NEAR(rig.Nll(), loss(), 10 * kEps * loss());

  constexpr double kStep = 1e-5;
  for (const Parameter& parameter : rig.model->parameters()) {
    auto& values = reference.weights[parameter.name];
    const std::vector<float> gradient = Read(parameter.grad);
    std::vector<float> expected;
    for (double& value : values) {
      const double kept = value;
      value = kept + kStep;
      const double above = loss();
      value = kept - kStep;
      const double below = loss();
      value = kept;
      expected.push_back(static_cast<float>((above - below) / (2 * kStep * valid)));
    }
    // Between a weight and the loss lie at most 12 tensors a layer, there and back, each rounded to
    // BF16 (relative 2^-9): 2 layers x 12 roundings, if all of them push the same way.
    const double bound = 2 * 12 * kEps;
    EXPECT_LT(RelativeError(gradient, expected), bound) << parameter.name;
    EXPECT_GT(Norm(gradient), 0) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, AgainstFp64, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "tied" : "untied");
});

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += static_cast<double>(a[i]) * b[i];
  return dot / (Norm(a) * Norm(b));
}

// A random E4M3 operand is off by 2^-4/sqrt(3) = 3.6 % (root mean square of at most half a unit in
// three bits of mantissa, averaged over a binade less), an E5M2 gradient by twice that. A gradient
// sees some ten of the former and five of the latter: error below 0.2, cosine above 1 - 0.2^2/2.
// One tensor alone, of which the smallest has 64 elements, may be off by half as much again.
TEST(Gradients, Fp8RecipesPointTheSameWay) {
  JobSpec job = SmallJob();
  job.mutable_model()->set_hidden_size(64);
  job.mutable_model()->set_intermediate_size(160);
  job.mutable_model()->set_init_std(0.1);
  job.mutable_precision()->set_recipe(RECIPE_BF16);
  Rig bf16(job);
  const HostBatch batch = bf16.Random(12);
  bf16.Step(batch);
  for (const Recipe recipe : {RECIPE_FP8, RECIPE_COAT}) {
    job.mutable_precision()->set_recipe(recipe);
    Rig rig(job);
    rig.Step(batch);
    EXPECT_NEAR(rig.Nll(), bf16.Nll(), 0.01 * bf16.Nll());
    for (const Parameter& parameter : rig.model->parameters()) {
      const std::vector<float> exact = Read(bf16.Find(parameter.name).grad);
      EXPECT_GT(Cosine(Read(parameter.grad), exact), 1 - 0.3 * 0.3 / 2) << parameter.name;
    }
    EXPECT_GT(Cosine(rig.Gradients(), bf16.Gradients()), 1 - 0.2 * 0.2 / 2);
    EXPECT_NE(rig.GradientBytes(), bf16.GradientBytes());
  }
}

}  // namespace
}  // namespace coat
