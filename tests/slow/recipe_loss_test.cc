// NUMERICS 6: on the same data, recipe coat may end at most 1 % above bf16 in a short run.
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/bench/engine.h"
#include "worker/data/loader.h"
#include "worker/trainer/batch_feeder.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using coatrack::v1::Recipe;

// A pair has a standard deviation of 1 to 2 %, and every commit is another corpus: the mean of four
// was seen from 0.24 % below to 1.1 % above with the same program.
constexpr int kSeeds = 8;
constexpr int64_t kSteps = 240;
constexpr int64_t kSequenceLength = 128;
constexpr int64_t kGlobalBatch = 16;
static_assert(kGlobalBatch * kSequenceLength >= 2048);  // tokens a step, NUMERICS 6

// The corpus is this repository's own text, as bytes.
JobSpec Job(Recipe recipe, uint64_t seed) {
  JobSpec spec = BenchJob({.preset = "llama-tiny",
                           .micro_batch = kGlobalBatch / 2,
                           .accumulation = 2,
                           .sequence_length = kSequenceLength},
                          kSteps);
  spec.mutable_model()->set_layers(2);
  for (const char* pattern : {"client/*/*.cc", "configs/*/*.cc", "server/*/*.cc", "tests/**/*.cc",
                              "worker/*/*.cc", "worker/**/*.h"}) {
    spec.mutable_data()->add_text(pattern);
  }
  auto* train = spec.mutable_train();
  train->set_seed(seed);
  train->set_eval_sequences(256);
  auto* optimizer = spec.mutable_optimizer();
  optimizer->set_lr(3e-3);
  optimizer->set_warmup_steps(20);
  spec.mutable_precision()->set_recipe(recipe);
  return CompleteJob(spec);
}

struct Curve {
  double before = 0, after = 0;  // validation loss, nats a token
  std::string state;             // the optimizer state that ran
};

double ValidationLoss(BenchEngine* engine, BatchFeeder* feeder) {
  const std::vector<Sample> samples = feeder->ValidationSamples();
  Model& model = engine->model();
  model.ResetStep();
  const auto count = static_cast<int64_t>(samples.size());
  for (int64_t i = 0; i * feeder->micro_batch() < count; ++i) {
    model.EvaluateMicrobatch(feeder->Upload(samples, i));
  }
  float nll = 0;
  engine->ops().ToHost(model.nll(), &nll);
  engine->ops().Synchronize();
  return nll / static_cast<double>(ValidTargets(samples));
}

Curve Train(Recipe recipe, uint64_t seed) {
  const JobSpec spec = Job(recipe, seed);
  const auto validation = OpenDataset(spec, COAT_SOURCE_DIR, nullptr);
  BenchEngine engine(spec, {.name = "cpu", .threads = 1},
                     OpenDataset(spec, COAT_SOURCE_DIR, nullptr));
  BatchFeeder feeder(spec, validation.get(), &engine.ops(), &engine.arena());
  Curve curve;
  curve.state = engine.optimizer().StateName();
  curve.before = ValidationLoss(&engine, &feeder);
  for (int64_t step = 0; step < kSteps; ++step) engine.Step();
  curve.after = ValidationLoss(&engine, &feeder);
  return curve;
}

TEST(RecipeLossTest, CoatEndsWithinOnePercentOfBf16) {
  double bf16_sum = 0;
  double coat_sum = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::future<Curve> other =
        std::async(std::launch::async, Train, coatrack::v1::RECIPE_BF16, seed);
    const Curve coat = Train(coatrack::v1::RECIPE_COAT, seed);
    const Curve bf16 = other.get();
    std::cout << "seed " << seed << ": bf16 " << bf16.before << " -> " << bf16.after << ", coat "
              << coat.before << " -> " << coat.after << ", ratio " << coat.after / bf16.after
              << std::endl;
    EXPECT_EQ(bf16.state, "fp32");
    EXPECT_EQ(coat.state, "fp8_dre e4m3/e4m3");
    EXPECT_LT(bf16.after, 0.5 * bf16.before);  // there is something to lose
    bf16_sum += bf16.after;
    coat_sum += coat.after;
  }
  std::cout << "mean: bf16 " << bf16_sum / kSeeds << ", coat " << coat_sum / kSeeds << ", ratio "
            << coat_sum / bf16_sum << std::endl;
  EXPECT_LE(coat_sum, 1.01 * bf16_sum);
}

}  // namespace
}  // namespace coat
