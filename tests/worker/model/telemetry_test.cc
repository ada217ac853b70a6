#include "worker/model/telemetry.h"

#include <gtest/gtest.h>

#include "tests/worker/model/rig.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

enum Counter { kValues, kNonzero, kSaturated, kFlushed, kErrorSq, kValueSq, kScaleMin, kScaleMax };

std::vector<float> Health(const Rig& rig, Operand operand) {
  rig.ops->Synchronize();
  return Read(rig.model->health(operand));
}

TEST(Telemetry, CountsEveryOperandOfASampledMicrobatch) {
  Rig rig(SmallJob());
  rig.model->SetTelemetry(true);
  rig.Step(rig.Random(51));
  const float n = 32, d = 32, q = 32, qkv = 64, f = 48;
  const float weights = qkv * d + d * q + 2 * f * d + d * f;
  EXPECT_EQ(Health(rig, Operand::kActivation)[kValues], 2 * n * q);
  EXPECT_EQ(Health(rig, Operand::kWeight)[kValues], 2 * weights);
  EXPECT_EQ(Health(rig, Operand::kGradient)[kValues], 2 * n * (2 * d + qkv + 2 * f));
  EXPECT_EQ(Health(rig, Operand::kGroup)[kValues], 2 * n * (2 * d + 2 * f));
  for (const Operand operand :
       {Operand::kActivation, Operand::kWeight, Operand::kGradient, Operand::kGroup}) {
    const std::vector<float> health = Health(rig, operand);
    EXPECT_GT(health[kScaleMin], 0);
    EXPECT_GE(health[kScaleMax], health[kScaleMin]);
    EXPECT_LT(health[kScaleMax], 10);
    // Relative error: at most half a unit of 3 (2) bits of mantissa for what is not flushed.
    const double bound = operand == Operand::kGradient ? 0x1p-3 : 0x1p-4;
    EXPECT_LT(std::sqrt(health[kErrorSq] / health[kValueSq]), bound);
    EXPECT_GT(health[kErrorSq], 0);
    // The largest of each tensor takes the largest code.
    EXPECT_GT(health[kSaturated], 0);
    EXPECT_LT(health[kFlushed], 0.05 * health[kNonzero]);
  }
}

TEST(Telemetry, SamplesTheFirstMicrobatchOfAStepWhenOn) {
  Rig rig(SmallJob());
  const HostBatch batch = rig.Random(52);
  rig.Step(batch);
  EXPECT_EQ(Health(rig, Operand::kWeight)[kValues], 0);
  rig.model->SetTelemetry(true);
  rig.Train(batch, 32, false);
  EXPECT_EQ(Health(rig, Operand::kWeight)[kValues], 0);
  rig.Train(batch, 32, true);
  const float once = Health(rig, Operand::kWeight)[kValues];
  EXPECT_GT(once, 0);
  rig.Train(batch, 32, true);
  EXPECT_EQ(Health(rig, Operand::kWeight)[kValues], 2 * once);
  rig.model->SetTelemetry(true);
  EXPECT_EQ(Health(rig, Operand::kWeight)[kValues], 0);
}

TEST(Telemetry, ChangesNoBitOfTheGradients) {
  Rig rig(SmallJob());
  const HostBatch batch = rig.Random(53);
  rig.Step(batch);
  const std::vector<uint8_t> gradients = rig.GradientBytes();
  rig.model->SetTelemetry(true);
  rig.Step(batch);
  EXPECT_EQ(rig.GradientBytes(), gradients);
}

TEST(Telemetry, Bf16HasNoFp8Operands) {
  JobSpec job = SmallJob();
  job.mutable_precision()->set_recipe(RECIPE_BF16);
  Rig rig(job);
  rig.model->SetTelemetry(true);
  rig.Step(rig.Random(54));
  for (int i = 0; i < kOperands; ++i) {
    for (const float value : Health(rig, static_cast<Operand>(i))) EXPECT_EQ(value, 0);
  }
}

}  // namespace
}  // namespace coat
