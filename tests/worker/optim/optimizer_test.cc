// The optimizer with a real model: what it learns, skips, saves.
#include "worker/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/worker/optim/tiny_engine.h"

namespace coat {
namespace {

struct Option {
  coatrack::v1::OptimizerState state;
  coatrack::v1::MasterWeights master;
  const char* name;
};

class OptimizerTest : public testing::TestWithParam<Option> {
 protected:
  coatrack::v1::JobSpec spec_ = TinyJob(GetParam().state, GetParam().master);
};

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerTest,
    testing::Values(
        Option{coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32, "fp8_dre"},
        Option{coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_BF16_SR,
               "fp8_dre_bf16_sr"},
        Option{coatrack::v1::OPTIMIZER_STATE_FP8, coatrack::v1::MASTER_WEIGHTS_FP32, "fp8"},
        Option{coatrack::v1::OPTIMIZER_STATE_BF16, coatrack::v1::MASTER_WEIGHTS_FP32, "bf16"},
        Option{coatrack::v1::OPTIMIZER_STATE_FP32, coatrack::v1::MASTER_WEIGHTS_FP32, "fp32"}),
    [](const testing::TestParamInfo<Option>& info) { return info.param.name; });

TEST_P(OptimizerTest, Learns) {
  Engine engine(spec_);
  const double first = engine.Step(1);
  EXPECT_NEAR(first, std::log(257.0), 0.5);
  double last = 0;
  for (int64_t step = 2; step <= 20; ++step) last = engine.Step(step);
  EXPECT_LT(last, first / 2);
  EXPECT_EQ(engine.optimizer().ReadState().t, 20);
}

TEST_P(OptimizerTest, ResumeIsBitwise) {
  Engine straight(spec_), resumed(spec_);
  for (int64_t step = 1; step <= 3; ++step) straight.Step(step);
  resumed.Load(straight.Bytes(), straight.optimizer().ReadState().t);
  ASSERT_EQ(resumed.Bytes(), straight.Bytes());
  for (int64_t step = 4; step <= 6; ++step) EXPECT_EQ(resumed.Step(step), straight.Step(step));
  EXPECT_EQ(resumed.Bytes(), straight.Bytes());
}

TEST_P(OptimizerTest, NotFiniteGradientSkips) {
  Engine engine(spec_);
  engine.Step(1);
  const std::string before = engine.Bytes();
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    engine.Step(2, poison);
    EXPECT_EQ(engine.Bytes(), before);
    EXPECT_EQ(engine.optimizer().ReadState().apply, 0);
    EXPECT_EQ(engine.optimizer().ReadState().t, 1);
  }
  engine.Step(3);
  EXPECT_NE(engine.Bytes(), before);
  EXPECT_EQ(engine.optimizer().ReadState().t, 2);
}

// The first update moves every parameter that has a gradient by lr_1 = lr / 4 (warm-up), up or
// down, so the sum of squares counts them.
TEST_P(OptimizerTest, FirstStepUsesTheWarmupRate) {
  Engine engine(spec_);
  engine.Step(1);
  int64_t moved = 0;
  for (const Parameter& parameter : engine.model().parameters()) {
    for (int64_t i = 0; i < parameter.grad.numel(); ++i) {
      moved += std::abs(parameter.grad.as<const float>()[i]) > 1e-6f;
    }
  }
  ASSERT_GT(moved, 10'000);
  const double lr = 1e-2 / 4;
  // eps against the smallest gradients counted: 1e-8 / 1e-6, squared sums twice that.
  EXPECT_NEAR(engine.optimizer().ReadState().update_sq, lr * lr * moved, lr * lr * moved * 0.02);
}

}  // namespace
}  // namespace coat
