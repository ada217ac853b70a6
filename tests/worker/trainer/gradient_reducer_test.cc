#include "worker/trainer/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"

namespace coat {
namespace {

using testing::TempDir;
using testing::TinyJob;
using testing::WithSessions;
using testing::WorldOptions;

// The step's gradients after they were summed by `sum`, of every rank.
using SumGradients = std::function<void(Session*, const std::function<void()>& backward)>;
std::vector<std::vector<float>> Gradients(const coatrack::v1::JobSpec& spec,
                                          const WorldOptions& options, const SumGradients& sum) {
  std::vector<std::vector<float>> gradients(static_cast<size_t>(options.world_size));
  WithSessions(spec, options, [&](Session* session) {
    DataPosition position;
    const StepBatch batch = session->feeder->Next(&position);
    const Tensor inverse = session->feeder->UploadInverseCount(batch.valid_targets);
    session->model->ResetStep();
    sum(session, [&] {
      session->model->TrainMicrobatch(session->feeder->Upload(batch.samples, session->rank()),
                                      inverse, true);
    });
    std::vector<float>& mine = gradients[static_cast<size_t>(session->rank())];
    for (const Parameter& parameter : session->model->parameters()) {
      const float* grad = parameter.grad.as<float>();
      mine.insert(mine.end(), grad, grad + parameter.grad.numel());
    }
  });
  return gradients;
}

TEST(GradientReducer, BucketsHaveTheBitsOfOneSumAParameter) {
  const TempDir dir;
  coatrack::v1::JobSpec spec = TinyJob(dir.path());
  WorldOptions options;
  options.data_root = dir.path();
  for (const bool tied : {false, true}) {
    spec.mutable_model()->set_tie_embeddings(tied);
    for (const int world_size : {1, 2, 4}) {
      options.world_size = world_size;
      const auto expected =
          Gradients(spec, options, [](Session* session, const std::function<void()>& backward) {
            backward();
            for (const Parameter& parameter : session->model->parameters()) {
              session->collectives->AllReduceSum(parameter.grad);
            }
          });
      for (const int64_t bucket_bytes : {int64_t{0}, int64_t{20'000}, kBucketBytes}) {
        std::vector<uint64_t> sums(static_cast<size_t>(world_size));
        const auto reduced =
            Gradients(spec, options, [&](Session* session, const std::function<void()>& backward) {
              const uint64_t before = session->collectives->sequence();
              GradientReducer reducer(session->model->parameters(), session->collectives.get(),
                                      bucket_bytes);
              session->model->WatchGradients(
                  [&](int64_t first, int64_t count) { reducer.Ready(first, count); });
              backward();
              session->model->WatchGradients(nullptr);
              reducer.Finish();
              sums[static_cast<size_t>(session->rank())] =
                  session->collectives->sequence() - before;
            });
        EXPECT_EQ(reduced, expected);
        // Head, two layers, embedding: each a sum, or all of them one.
        EXPECT_EQ(sums,
                  std::vector<uint64_t>(sums.size(), bucket_bytes == 0              ? 4
                                                     : bucket_bytes == kBucketBytes ? 1
                                                                                    : sums[0]));
      }
    }
  }
}

TEST(GradientReducer, EveryGradientIsReportedOnceBeforeFinish) {
  const TempDir dir;
  WorldOptions options;
  options.data_root = dir.path();
  WithSessions(TinyJob(dir.path()), options, [](Session* session) {
    const auto count = static_cast<int64_t>(session->model->parameters().size());
    GradientReducer reducer(session->model->parameters(), session->collectives.get());
    reducer.Ready(0, count - 1);
    EXPECT_THROW(reducer.Finish(), Error);
  });
}

TEST(JoinNeighbours, JoinsWhatOnlyAlignmentParts) {
  alignas(256) static float memory[1024];
  const std::vector<Tensor> tensors = {
      Tensor(memory, DType::kF32, {10, 6}),       // 240 bytes, padded to 256
      Tensor(memory + 64, DType::kF32, {64}),     // follows
      Tensor(memory + 128, DType::kBF16, {128}),  // another type
      Tensor(memory + 512, DType::kF32, {3}),     // a gap
  };
  const std::vector<Tensor> joined = JoinNeighbours(tensors);
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_EQ(joined[0].numel(), 128);
  EXPECT_EQ(joined[1].dtype, DType::kBF16);
  EXPECT_EQ(joined[2].numel(), 3);
  EXPECT_EQ(joined[2].data, memory + 512);
}

}  // namespace
}  // namespace coat
