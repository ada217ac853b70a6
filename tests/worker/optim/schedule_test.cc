#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "configs/base/error.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

constexpr double kTolerance = 1e-15;  // of rates near 1e-3: a few FP64 roundings
constexpr int64_t kSteps = 1000;

coatrack::v1::OptimizerSpec Spec(coatrack::v1::Schedule schedule, int64_t warmup) {
  coatrack::v1::OptimizerSpec spec;
  spec.set_lr(3e-3);
  spec.set_min_lr(3e-4);
  spec.set_schedule(schedule);
  spec.set_warmup_steps(warmup);
  spec.set_decay_steps(200);
  return spec;
}

TEST(ScheduleTest, WarmupIsLinearForAll) {
  for (const auto schedule : {coatrack::v1::SCHEDULE_COSINE, coatrack::v1::SCHEDULE_LINEAR,
                              coatrack::v1::SCHEDULE_WSD, coatrack::v1::SCHEDULE_CONSTANT}) {
    for (int64_t step = 1; step <= 50; ++step) {
      EXPECT_NEAR(LearningRate(Spec(schedule, 50), step, kSteps), 3e-3 * step / 50.0, kTolerance);
    }
  }
}

TEST(ScheduleTest, Cosine) {
  const auto spec = Spec(coatrack::v1::SCHEDULE_COSINE, 100);
  for (const int64_t step : {101, 400, 550, 999}) {
    const double angle = std::numbers::pi * static_cast<double>(step - 100) / 900;
    EXPECT_NEAR(LearningRate(spec, step, kSteps), 3e-4 + 2.7e-3 * (1 + std::cos(angle)) / 2,
                kTolerance);
  }
  EXPECT_NEAR(LearningRate(spec, 550, kSteps), 1.65e-3, kTolerance);  // half way
  EXPECT_NEAR(LearningRate(spec, kSteps, kSteps), 3e-4, kTolerance);
  EXPECT_NEAR(LearningRate(spec, kSteps + 10, kSteps), 3e-4, kTolerance);
}

TEST(ScheduleTest, Linear) {
  const auto spec = Spec(coatrack::v1::SCHEDULE_LINEAR, 0);
  EXPECT_NEAR(LearningRate(spec, 1, kSteps), 3e-3 - 2.7e-6, kTolerance);
  EXPECT_NEAR(LearningRate(spec, 500, kSteps), 1.65e-3, kTolerance);
  EXPECT_NEAR(LearningRate(spec, kSteps, kSteps), 3e-4, kTolerance);
}

TEST(ScheduleTest, WarmupStableDecay) {
  auto spec = Spec(coatrack::v1::SCHEDULE_WSD, 100);
  EXPECT_NEAR(LearningRate(spec, 101, kSteps), 3e-3, kTolerance);
  EXPECT_NEAR(LearningRate(spec, 800, kSteps), 3e-3, kTolerance);
  EXPECT_NEAR(LearningRate(spec, 900, kSteps), 1.65e-3, kTolerance);
  EXPECT_NEAR(LearningRate(spec, kSteps, kSteps), 3e-4, kTolerance);
  spec.set_decay_steps(5000);  // longer than what follows the warm-up
  EXPECT_NEAR(LearningRate(spec, 550, kSteps), 1.65e-3, kTolerance);
  EXPECT_NEAR(LearningRate(spec, kSteps, kSteps), 3e-4, kTolerance);
}

TEST(ScheduleTest, Constant) {
  const auto spec = Spec(coatrack::v1::SCHEDULE_CONSTANT, 0);
  EXPECT_EQ(LearningRate(spec, 1, kSteps), 3e-3);
  EXPECT_EQ(LearningRate(spec, kSteps, kSteps), 3e-3);
}

TEST(ScheduleTest, RunThatEndsInItsWarmup) {
  EXPECT_NEAR(LearningRate(Spec(coatrack::v1::SCHEDULE_COSINE, 50), 10, 10), 6e-4, kTolerance);
}

TEST(ScheduleTest, UnsetScheduleIsNamed) {
  const auto spec = Spec(coatrack::v1::SCHEDULE_UNSPECIFIED, 0);
  EXPECT_THROW(LearningRate(spec, 1, kSteps), Error);
}

}  // namespace
}  // namespace coat
