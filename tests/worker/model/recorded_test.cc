#include "worker/model/recorded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/ops_fixture.h"
#include "tests/worker/model/rig.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a training run leaves behind, by name.
using Results = std::vector<std::pair<std::string, std::vector<uint8_t>>>;

std::vector<std::string> Differing(const Results& a, const Results& b) {
  std::vector<std::string> names;
  if (a.size() != b.size()) names.push_back("number of results");
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) names.push_back(a[i].first);
  }
  return names;
}

// Everything of a rank on one device. The operators are shared by all runs of a test: their choice
// of algorithms for products is measured once.
class RecordedTest : public ::testing::TestWithParam<std::string> {
 protected:
  void Build(coatrack::v1::JobSpec job) {
    job.mutable_train()->set_deterministic(true);
    spec_ = WithDefaults(job);
    ops_ = CreateOps(GetParam(), 2);
    arena_ = std::make_unique<Arena>(MakePlan(spec_, 0, 1, ops_->device()), GetParam());
    model_ =
        std::make_unique<RecordedModel>(CreateModel(spec_, ops_.get(), arena_.get()), ops_.get());
  }

  std::vector<uint8_t> Host(const Tensor& x) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(x.bytes()));
    ops_->ToHost(x, bytes.data());
    ops_->Synchronize();
    return bytes;
  }

  void Upload(uint32_t seed) {
    const int64_t tokens = spec_.train().micro_batch() * spec_.train().sequence_length();
    const HostBatch batch = RandomBatch(tokens, spec_.model().vocab_size(), seed);
    const std::vector<int32_t> order = TokenOrder(batch.tokens);
    const float inverse = 1.0f / static_cast<float>(2 * tokens);
    const Batch buffers = BatchBuffers(*arena_);
    ops_->ToDevice(batch.tokens.data(), buffers.tokens);
    ops_->ToDevice(batch.targets.data(), buffers.targets);
    ops_->ToDevice(order.data(), buffers.order);
    ops_->ToDevice(&inverse, arena_->Get(kBatchInverseCount));
    ops_->Synchronize();
  }

  // Loss and update of each step and loss of each evaluation, then all masters: of six steps of two
  // microbatches from the seed, step 4 with telemetry.
  Results Train(Model* model) {
    std::unique_ptr<Optimizer> optimizer = CreateOptimizer(spec_, model, ops_.get(), arena_.get());
    for (const StateTensor& state : optimizer->StateTensors()) ops_->Zero(state.tensor);
    optimizer = CreateOptimizer(spec_, model, ops_.get(), arena_.get());
    model->Initialize(spec_.train().seed());
    Results results;
    for (uint32_t step = 1; step <= 6; ++step) {
      model->SetTelemetry(step == 4);
      model->ResetStep();
      for (uint32_t i = 0; i < 2; ++i) {
        Upload(10 * step + i);
        model->TrainMicrobatch(BatchBuffers(*arena_), arena_->Get(kBatchInverseCount), i == 0);
      }
      optimizer->Step(step, model->nonfinite(), arena_->Get(kBatchInverseCount));
      model->WeightsUpdated();
      const std::string name = "step " + std::to_string(step) + ", ";
      results.emplace_back(name + "loss", Host(model->nll()));
      results.emplace_back(name + "update", Host(arena_->Get(kStepStateName)));
      if (step == 4) {
        results.emplace_back(name + "health", Host(model->health(Operand::kGradient)));
      }
      if (step % 2 == 1) continue;
      model->SetTelemetry(false);
      model->ResetStep();
      Upload(1000);
      model->EvaluateMicrobatch(BatchBuffers(*arena_));
      results.emplace_back(name + "evaluation", Host(model->nll()));
    }
    for (const Parameter& parameter : model->parameters()) {
      results.emplace_back(parameter.name, Host(parameter.master));
    }
    return results;
  }

  coatrack::v1::JobSpec spec_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<RecordedModel> model_;
};
INSTANTIATE_TEST_SUITE_P(Devices, RecordedTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

TEST_P(RecordedTest, ReplayedStepsGiveTheBitsOfStepsThatRunAsTheyAre) {
  for (const auto recipe : {coatrack::v1::RECIPE_COAT, coatrack::v1::RECIPE_BF16}) {
    coatrack::v1::JobSpec job = SmallJob();
    job.mutable_train()->set_sequence_length(128);
    job.mutable_precision()->set_recipe(recipe);
    Build(job);
    const std::unique_ptr<Model> plain = CreateModel(spec_, ops_.get(), arena_.get());
    const Results expected = Train(plain.get());
    EXPECT_THAT(Differing(Train(model_.get()), expected), IsEmpty());
    EXPECT_TRUE(model_->recording());
    // Once each as it is, and one microbatch that was sampled; the rest is replayed: of 12
    // microbatches, 9 resets, 6 updates and 3 evaluations.
    EXPECT_EQ(model_->replays(), 12 - 3 + 8 + 5 + 2);
    if (GetParam() != "cpu") {
      EXPECT_GT(model_->operations(), 10);  // of an evaluation, the last replay
    }
    EXPECT_THAT(Differing(Train(model_.get()), expected), IsEmpty());
  }
}

// Lengths that an attention library pads.
TEST_P(RecordedTest, OddLengthsGiveTheSameBits) {
  coatrack::v1::JobSpec job = SmallJob();
  job.mutable_train()->set_sequence_length(17);
  Build(job);
  const std::unique_ptr<Model> plain = CreateModel(spec_, ops_.get(), arena_.get());
  const Results expected = Train(plain.get());
  EXPECT_THAT(Differing(Train(model_.get()), expected), IsEmpty());
  EXPECT_TRUE(model_->recording());
  EXPECT_THAT(Differing(Train(model_.get()), expected), IsEmpty());
}

TEST_P(RecordedTest, OtherBuffersRunAsTheyAre) {
  Build(SmallJob());
  model_->Initialize(1);
  Upload(1);
  const Batch batch = BatchBuffers(*arena_);
  Batch other = batch;
  other.targets = batch.tokens;  // another place, and another loss
  const auto loss_of = [&](const Batch& which) {
    model_->ResetStep();
    model_->EvaluateMicrobatch(which);
    return Host(model_->nll());
  };
  const std::vector<uint8_t> loss = loss_of(batch);
  EXPECT_EQ(loss_of(batch), loss);
  const std::vector<uint8_t> other_loss = loss_of(other);
  EXPECT_NE(other_loss, loss);
  EXPECT_EQ(loss_of(batch), loss);
  EXPECT_EQ(loss_of(other), other_loss);
}

// What a device that cannot record answers.
class UnrecordableOps final : public CpuOps {
 public:
  UnrecordableOps() : CpuOps(2) {}
  std::unique_ptr<Recording> Record(std::function<void()>) override {
    ++asked;
    throw Error(Code::kFailedPrecondition, "the device cannot record these operators: no");
  }
  int asked = 0;
};

TEST(RecordedModelTest, FallsBackWithOneLine) {
  const coatrack::v1::JobSpec spec = WithDefaults(SmallJob());
  UnrecordableOps ops;
  Arena arena(MakePlan(spec, 0, 1, DeviceType::kCpu), "cpu");
  RecordedModel model(CreateModel(spec, &ops, &arena), &ops);
  model.Initialize(1);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    model.ResetStep();
    model.WeightsUpdated();
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("without recorded microbatches: the device cannot record"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(ops.asked, 1);
  EXPECT_EQ(model.replays(), 0);
  EXPECT_FALSE(model.recording());
}

}  // namespace
}  // namespace coat
