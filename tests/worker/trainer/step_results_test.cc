#include "worker/trainer/step_results.h"

#include <gtest/gtest.h>

#include "configs/base/error.h"
#include "tests/support/late_ops.h"

namespace coat {
namespace {

class StubOptimizer final : public Optimizer {
 public:
  StubOptimizer(Ops* ops, StepState* state) : ops_(ops), state_(state) {}
  void CopyState(StepState* host) override {
    ops_->ToHost(Tensor(state_, DType::kU8, {static_cast<int64_t>(sizeof *state_)}), host);
  }
  void Step(int64_t, const Tensor&, const Tensor&) override {}
  StepState ReadState() override { return *state_; }
  void SetAppliedSteps(int32_t) override {}
  std::vector<StateTensor> StateTensors() override { return {}; }
  KHistogram ExpansionK(bool) override { return {}; }
  void SetTelemetry(bool) override {}
  MomentHealth moment_health() const override { return {}; }
  std::string StateName() const override { return "none"; }

 private:
  Ops* ops_;
  StepState* state_;
};

class StepResultsTest : public ::testing::Test {
 protected:
  // A step whose results on the device are overwritten as soon as they are queued.
  void Step(int64_t step) {
    results_.Begin();
    nll_ = static_cast<float>(step) * 0.5f;
    state_.t = static_cast<int32_t>(10 * step);
    PreparedStep prepared;
    prepared.sequences = 100 + step;
    prepared.valid_targets = 200 + step;
    results_.Queue(step, prepared, Tensor(&nll_, DType::kF32, {1}), &optimizer_);
    nll_ = -1;
    state_ = {};
  }
  void ExpectNext(int64_t step, double seconds) {
    const StepResult result = results_.Take();
    EXPECT_EQ(result.step, step);
    EXPECT_EQ(result.nll, static_cast<float>(step) * 0.5f);
    EXPECT_EQ(result.update.t, 10 * step);
    EXPECT_EQ(result.sequences, 100 + step);
    EXPECT_EQ(result.valid_targets, 200 + step);
    EXPECT_EQ(result.seconds, seconds);
  }

  LateOps ops_;
  float nll_ = 0;
  StepState state_;
  StubOptimizer optimizer_{&ops_, &state_};
  StepResults results_{&ops_, 1};
};

TEST_F(StepResultsTest, ComeInOrderWhateverTheNextStepOverwrites) {
  Step(1);
  for (int64_t step = 2; step < 20; ++step) {
    Step(step);
    EXPECT_EQ(results_.pending(), 2);
    ExpectNext(step - 1, 1);
  }
  ExpectNext(19, 1);
  EXPECT_EQ(results_.pending(), 0);
}

TEST_F(StepResultsTest, APauseIsNotPartOfAStep) {
  Step(1);
  ExpectNext(1, 1);
  const std::unique_ptr<Mark> other = ops_.CreateMark();
  other->Set();  // a second between two steps
  Step(2);
  ExpectNext(2, 2);
  other->Set();
  results_.Pause();
  Step(3);
  ExpectNext(3, 1);
}

TEST_F(StepResultsTest, RefusesMoreStepsThanItHasRoomFor) {
  EXPECT_THROW(results_.Take(), Error);
  Step(1);
  Step(2);
  EXPECT_THROW(Step(3), Error);
}

}  // namespace
}  // namespace coat
