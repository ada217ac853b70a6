#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using testing::TempDir;
using testing::TinyJob;
using testing::WithSessions;
using testing::WorldOptions;

std::vector<float> Gradient(const Session& session) {
  std::vector<float> all;
  for (const Parameter& p : session.model->parameters()) {
    const float* grad = p.grad.as<float>();
    all.insert(all.end(), grad, grad + p.grad.numel());
  }
  return all;
}

// Sum of nll of each microbatch of step 1 alone, by its number, and the reduced gradient.
struct StepOne {
  std::map<int64_t, float> nll;
  std::vector<float> gradient;
};

StepOne RunStepOne(const JobSpec& spec, const std::string& data_root, int world_size) {
  StepOne result;
  std::mutex mutex;
  WorldOptions options;
  options.data_root = data_root;
  options.world_size = world_size;
  WithSessions(spec, options, [&](Session* session) {
    DataPosition position;
    const StepBatch batch = session->feeder->Next(&position);
    const Tensor inverse = session->feeder->UploadInverseCount(batch.valid_targets);
    const int64_t mine = session->microbatches_per_rank();
    for (int64_t i = 0; i < mine; ++i) {
      const int64_t number = session->rank() * mine + i;
      session->model->ResetStep();
      session->model->TrainMicrobatch(session->feeder->Upload(batch.samples, number), inverse,
                                      true);
      const std::lock_guard lock(mutex);
      result.nll[number] = *session->model->nll().as<float>();
    }
    session->model->ResetStep();
    for (int64_t i = 0; i < mine; ++i) {
      session->model->TrainMicrobatch(
          session->feeder->Upload(batch.samples, session->rank() * mine + i), inverse, i == 0);
    }
    for (const Parameter& parameter : session->model->parameters()) {
      session->collectives->AllReduceSum(parameter.grad);
    }
    if (session->rank() == 0) result.gradient = Gradient(*session);
  });
  return result;
}

TEST(StepOne, MicrobatchLossesAreBitwiseEqualForAnyNumberOfRanks) {
  const TempDir dir;
  const JobSpec spec = TinyJob(dir.path());
  const StepOne one = RunStepOne(spec, dir.path(), 1);
  ASSERT_EQ(one.nll.size(), 4u);
  double largest = 0;
  for (const float g : one.gradient) largest = std::max(largest, std::fabs(double{g}));
  for (const int world_size : {2, 4}) {
    const StepOne many = RunStepOne(spec, dir.path(), world_size);
    EXPECT_EQ(many.nll, one.nll);
    ASSERT_EQ(many.gradient.size(), one.gradient.size());
    // Four terms in another order: 3 roundings of partial sums, none above the sum of magnitudes.
    for (size_t i = 0; i < one.gradient.size(); ++i) {
      ASSERT_NEAR(many.gradient[i], one.gradient[i], 3 * 4 * 0x1p-24 * largest) << i;
    }
  }
}

TEST(Accumulation, SumOf256MicrobatchesIsAccurate) {
  const TempDir dir;
  JobSpec spec = TinyJob(dir.path());
  spec.mutable_train()->set_global_batch(256);
  WorldOptions options;
  options.data_root = dir.path();
  WithSessions(spec, options, [&](Session* session) {
    DataPosition position;
    const StepBatch batch = session->feeder->Next(&position);
    const Tensor inverse = session->feeder->UploadInverseCount(batch.valid_targets);
    std::vector<double> exact;
    for (int64_t i = 0; i < 256; ++i) {
      session->model->ResetStep();
      session->model->TrainMicrobatch(session->feeder->Upload(batch.samples, i), inverse, true);
      const std::vector<float> part = Gradient(*session);
      exact.resize(part.size());
      for (size_t k = 0; k < part.size(); ++k) exact[k] += part[k];
    }
    session->model->ResetStep();
    for (int64_t i = 0; i < 256; ++i) {
      session->model->TrainMicrobatch(session->feeder->Upload(batch.samples, i), inverse, i == 0);
    }
    const std::vector<float> sum = Gradient(*session);
    double error = 0;
    double norm = 0;
    for (size_t k = 0; k < sum.size(); ++k) {
      error += (sum[k] - exact[k]) * (sum[k] - exact[k]);
      norm += exact[k] * exact[k];
    }
    EXPECT_GT(norm, 0);
    // CASES.md asks for 1e-2; FP32 sums of 256 terms are far better.
    EXPECT_LT(std::sqrt(error / norm), 256 * 0x1p-24);
  });
}

}  // namespace
}  // namespace coat
