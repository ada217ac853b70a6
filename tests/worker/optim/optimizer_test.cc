// The optimizer with a real model: what it reports, skips, saves.
#include "worker/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "configs/base/error.h"
#include "configs/spec/defaults.h"
#include "worker/memory/arena.h"
#include "worker/memory/plan.h"

namespace coat {
namespace {

coatrack::v1::JobSpec TinyJob(coatrack::v1::OptimizerState state,
                              coatrack::v1::MasterWeights master) {
  coatrack::v1::JobSpec spec;
  spec.set_name("optimizer");
  auto* model = spec.mutable_model();
  model->set_preset("llama-tiny");
  model->set_hidden_size(48);
  model->set_layers(1);
  model->set_heads(2);
  model->set_intermediate_size(80);
  spec.mutable_data()->add_tokens("train.bin");
  auto* train = spec.mutable_train();
  train->set_steps(20);
  train->set_sequence_length(16);
  train->set_global_batch(2);
  train->set_micro_batch(2);
  train->set_seed(11);
  spec.mutable_optimizer()->set_lr(1e-2);
  spec.mutable_optimizer()->set_warmup_steps(4);
  spec.mutable_optimizer()->set_weight_decay(0);
  spec.mutable_precision()->set_optimizer_state(state);
  spec.mutable_precision()->set_master(master);
  const Status status = ViolationsToStatus(ApplyDefaults(&spec));
  if (!status.ok()) throw Error(status);
  return spec;
}

// One rank's engine on the CPU; every step sees the same tokens.
class Engine {
 public:
  explicit Engine(const coatrack::v1::JobSpec& spec)
      : ops_(CreateOps("cpu", 1)),
        arena_(MakePlan(spec, 0, 1, DeviceType::kCpu), "cpu"),
        model_(CreateModel(spec, ops_.get(), &arena_)),
        optimizer_(CreateOptimizer(spec, model_.get(), ops_.get(), &arena_)),
        batch_(BatchBuffers(arena_)),
        inverse_count_(arena_.Get(kBatchInverseCount)) {
    model_->Initialize(spec.train().seed());
    std::vector<int32_t> tokens(batch_.tokens.numel()), targets(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 90);
    for (size_t i = 0; i < tokens.size(); ++i) targets[i] = tokens[(i + 1) % tokens.size()];
    ops_->ToDevice(tokens.data(), batch_.tokens);
    ops_->ToDevice(targets.data(), batch_.targets);
    ops_->ToDevice(TokenOrder(tokens).data(), batch_.order);
    const float inverse = 1.0f / static_cast<float>(tokens.size());
    ops_->ToDevice(&inverse, inverse_count_);
    ops_->Synchronize();
    inverse_ = inverse;
  }

  // Mean loss before the update. `poison` is put into one gradient.
  double Step(int64_t step, float poison = 0) {
    model_->ResetStep();
    model_->TrainMicrobatch(batch_, inverse_count_, true);
    if (poison != 0) model_->parameters()[1].grad.as<float>()[3] = poison;
    optimizer_->Step(step, model_->nonfinite(), inverse_count_);
    model_->WeightsUpdated();
    return *model_->nll().as<const float>() * inverse_;
  }

  // Masters and optimizer state.
  std::string Bytes() {
    std::string out;
    for (const Tensor& tensor : Stored()) out.append(tensor.as<const char>(), tensor.bytes());
    return out;
  }
  void Load(const std::string& bytes, int32_t t) {
    size_t at = 0;
    for (const Tensor& tensor : Stored()) {
      std::memcpy(tensor.data, bytes.data() + at, tensor.bytes());
      at += tensor.bytes();
    }
    optimizer_->SetAppliedSteps(t);
    model_->WeightsChanged();
  }

  Optimizer& optimizer() { return *optimizer_; }
  Model& model() { return *model_; }

 private:
  std::vector<Tensor> Stored() {
    std::vector<Tensor> out;
    for (const Parameter& parameter : model_->parameters()) out.push_back(parameter.master);
    for (const StateTensor& state : optimizer_->StateTensors()) out.push_back(state.tensor);
    return out;
  }

  std::unique_ptr<Ops> ops_;
  Arena arena_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  Batch batch_;
  Tensor inverse_count_;
  float inverse_ = 0;
};

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

TEST(OptimizerReportTest, SaysWhatRuns) {
  auto spec = TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32);
  spec.mutable_precision()->set_moment_formats(coatrack::v1::MOMENT_FORMATS_E4M3_E5M2);
  EXPECT_EQ(Engine(spec).optimizer().StateName(), "fp8_dre e4m3/e5m2");
  const auto fp8 = TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8, coatrack::v1::MASTER_WEIGHTS_FP32);
  Engine plain(fp8);
  EXPECT_EQ(plain.optimizer().StateName(), "fp8 e4m3/e4m3");
  EXPECT_TRUE(plain.optimizer().ExpansionK(false).counts.empty());
}

TEST(OptimizerReportTest, HistogramOfMeasuredK) {
  Engine engine(TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32));
  const auto total = [&](bool second_moment) {
    const KHistogram histogram = engine.optimizer().ExpansionK(second_moment);
    EXPECT_EQ(histogram.bounds.front(), 1.0 / 16);
    EXPECT_EQ(histogram.bounds.back(), 64.0);
    EXPECT_EQ(histogram.counts.size(), histogram.bounds.size() + 1);
    return std::accumulate(histogram.counts.begin(), histogram.counts.end(), int64_t{0});
  };
  EXPECT_EQ(total(false), 0);  // all groups are zero
  engine.Step(1);
  int64_t groups = 0;
  for (const StateTensor& state : engine.optimizer().StateTensors()) {
    if (!state.name.ends_with(".v.k16")) continue;
    groups += state.tensor.numel();
  }
  EXPECT_GT(total(true), 0);
  EXPECT_LE(total(true), groups);
  // k of v is about half that of m: its range is twice as wide in log2.
  const auto mean = [&](bool second_moment) {
    const KHistogram histogram = engine.optimizer().ExpansionK(second_moment);
    double sum = 0, count = 0;
    for (size_t i = 0; i < histogram.bounds.size(); ++i) {
      sum += std::log2(histogram.bounds[i]) * static_cast<double>(histogram.counts[i]);
      count += static_cast<double>(histogram.counts[i]);
    }
    return sum / count;
  };
  EXPECT_NEAR(mean(false) - mean(true), 1.0, 0.25);
}

}  // namespace
}  // namespace coat
