#include "worker/trainer/batch_feeder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using testing::TempDir;
using testing::TinyJob;
using testing::WithSessions;
using testing::WorldOptions;

std::vector<int32_t> Content(const Tensor& tensor) {
  const int32_t* data = tensor.as<int32_t>();
  return {data, data + tensor.numel()};
}

TEST(BatchFeeder, MicrobatchIsItsSequencesOneAfterAnother) {
  const TempDir dir;
  JobSpec spec = TinyJob(dir.path());
  spec.mutable_train()->set_micro_batch(2);
  WorldOptions options;
  options.data_root = dir.path();
  WithSessions(spec, options, [](Session* session) {
    DataPosition position;
    const StepBatch batch = session->feeder->Next(&position);
    EXPECT_EQ(batch.samples.size(), 4u);
    EXPECT_EQ(batch.valid_targets, 64);
    EXPECT_EQ(position.index, 4);
    const Batch buffers = session->feeder->Upload(batch.samples, 1);
    std::vector<int32_t> tokens = batch.samples[2].tokens;
    tokens.insert(tokens.end(), batch.samples[3].tokens.begin(), batch.samples[3].tokens.end());
    EXPECT_EQ(Content(buffers.tokens), tokens);
    EXPECT_EQ(Content(buffers.order), TokenOrder(tokens));
    EXPECT_EQ(*session->feeder->UploadInverseCount(8).as<float>(), 0.125f);
    EXPECT_EQ(*session->feeder->UploadInverseCount(0).as<float>(), 0.0f);
  });
}

TEST(BatchFeeder, PreparedStepIsTheSameStep) {
  const TempDir dir;
  JobSpec spec = TinyJob(dir.path());
  WorldOptions options;
  options.data_root = dir.path();
  WithSessions(spec, options, [](Session* session) {
    BatchFeeder& feeder = *session->feeder;
    PreparedStep step;
    DataPosition position;
    for (int i = 0; i < 3; ++i) {  // the memory is used again
      const DataPosition begin = position;
      const StepBatch batch = feeder.Next(&position);
      feeder.Prepare(begin, 1, 2, &step);
      EXPECT_EQ(step.sequences, 4);
      EXPECT_EQ(step.valid_targets, batch.valid_targets);
      EXPECT_EQ(step.next.index, position.index);
      EXPECT_EQ(step.microbatches, 2);
      EXPECT_EQ(*feeder.UploadInverseCount(step).as<float>(), 1.0f / 64);
      const Batch prepared = feeder.Upload(step, 1);
      const std::vector<int32_t> tokens = Content(prepared.tokens);
      const std::vector<int32_t> targets = Content(prepared.targets);
      const std::vector<int32_t> order = Content(prepared.order);
      const Batch expected = feeder.Upload(batch.samples, 2);
      EXPECT_EQ(tokens, Content(expected.tokens));
      EXPECT_EQ(targets, Content(expected.targets));
      EXPECT_EQ(order, Content(expected.order));
    }
  });
}

TEST(BatchFeeder, MissingSequencesAreIgnoredTargets) {
  const TempDir dir;
  JobSpec spec = TinyJob(dir.path());
  spec.mutable_train()->set_micro_batch(2);
  WorldOptions options;
  options.data_root = dir.path();
  WithSessions(spec, options, [](Session* session) {
    const std::vector<Sample> five = session->feeder->ValidationSamples();
    ASSERT_EQ(five.size(), 5u);  // train.eval_sequences
    const std::vector<int32_t> targets = Content(session->feeder->Upload(five, 2).targets);
    const std::vector<int32_t> first(targets.begin(), targets.begin() + 16);
    EXPECT_EQ(first, five[4].targets);
    EXPECT_EQ(std::vector<int32_t>(targets.begin() + 16, targets.end()),
              std::vector<int32_t>(16, -1));
  });
}

}  // namespace
}  // namespace coat
