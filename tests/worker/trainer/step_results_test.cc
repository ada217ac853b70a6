#include "worker/trainer/step_results.h"

#include <gtest/gtest.h>

#include <cstring>

#include "configs/base/error.h"
#include "worker/ops/cpu/cpu_ops.h"

namespace coat {
namespace {

// A device that is as late as it may be: what it copies to the host is there only when the host
// has waited for it. Each mark is a second behind the one before.
class LateOps final : public CpuOps {
 public:
  LateOps() : CpuOps(1) {}

  void ToHost(const Tensor& from, void* host) override {
    const char* bytes = from.as<char>();
    copies_.push_back({std::vector<char>(bytes, bytes + from.bytes()), host});
  }
  void Synchronize() override { Deliver(copies_.size()); }
  std::unique_ptr<Mark> CreateMark() override { return std::make_unique<LateMark>(this); }

 private:
  struct Copy {
    std::vector<char> bytes;
    void* host;
  };
  class LateMark final : public Mark {
   public:
    explicit LateMark(LateOps* ops) : ops_(ops) {}
    void Set() override {
      behind_ = ops_->copies_.size();
      seconds_ = ++ops_->seconds_;
    }
    void Wait() override { ops_->Deliver(behind_); }
    double SecondsSince(const Mark& earlier) const override {
      return seconds_ - static_cast<const LateMark&>(earlier).seconds_;
    }

   private:
    LateOps* ops_;
    size_t behind_ = 0;
    double seconds_ = 0;
  };

  void Deliver(size_t count) {
    for (; delivered_ < count; ++delivered_) {
      const Copy& copy = copies_[delivered_];
      std::memcpy(copy.host, copy.bytes.data(), copy.bytes.size());
    }
  }

  std::vector<Copy> copies_;
  size_t delivered_ = 0;
  double seconds_ = 0;
};

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
