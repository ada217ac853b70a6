#include "worker/ops/cpu/grad_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "worker/precision/bf16.h"

namespace coat {
namespace {

class GradNormTest : public testing::Test {
 protected:
  GradNormTest() {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (const int64_t size : {1, 7, 128, 513, 70'001}) {
      std::vector<float> values(size);
      for (float& x : values) x = 1e-3f * normal(random);
      f32_.push_back(values);
    }
    for (float x : f32_.back()) bf16_.push_back(Bf16FromFloat(x));
  }

  StepState Run(int threads) {
    std::vector<Tensor> grads;
    for (auto& values : f32_) {
      grads.emplace_back(values.data(), DType::kF32,
                         std::initializer_list<int64_t>{static_cast<int64_t>(values.size())});
    }
    grads.emplace_back(bf16_.data(), DType::kBF16,
                       std::initializer_list<int64_t>{static_cast<int64_t>(bf16_.size())});
    StepState state;
    state.t = 5;
    GradNormArgs args;
    args.grads = grads;
    args.nonfinite = Tensor(&nonfinite_, DType::kI32, {1});
    args.inverse_count = Tensor(&inverse_count_, DType::kF32, {1});
    args.clip_norm = clip_norm_;
    args.state = Tensor(&state, DType::kU8, {static_cast<int64_t>(sizeof(state))});
    ThreadPool pool(threads);
    CpuGradNorm(args, pool);
    EXPECT_EQ(state.t, 5);
    return state;
  }

  double Reference() const {
    double sum = 0;
    for (const auto& values : f32_) {
      for (const float x : values) sum += static_cast<double>(x) * x;
    }
    for (const uint16_t x : bf16_) {
      sum += static_cast<double>(FloatFromBf16(x)) * FloatFromBf16(x);
    }
    return std::sqrt(sum);
  }

  std::vector<std::vector<float>> f32_;
  std::vector<uint16_t> bf16_;
  int32_t nonfinite_ = 0;
  float inverse_count_ = 0.5f;
  float clip_norm_ = 0;
};

TEST_F(GradNormTest, AgainstFp64) {
  const StepState state = Run(1);
  // 16 terms in a lane, 5 + 3 + 8 pairwise additions, a few tensors in a chunk, the square.
  EXPECT_NEAR(state.grad_norm, Reference(), Reference() * 48 * 0x1p-24);
  EXPECT_EQ(state.apply, 1);
  EXPECT_EQ(state.clip_factor, 1.0f);
}

TEST_F(GradNormTest, SameBitsForAnyNumberOfThreads) {
  const StepState one = Run(1);
  EXPECT_EQ(FloatBits(one.grad_norm), FloatBits(Run(2).grad_norm));
  EXPECT_EQ(FloatBits(one.grad_norm), FloatBits(Run(3).grad_norm));
}

TEST_F(GradNormTest, ClipFactor) {
  const float norm = Run(1).grad_norm;
  clip_norm_ = 0.1f;
  ASSERT_GT(norm, clip_norm_);
  EXPECT_EQ(Run(1).clip_factor, 0.1f / (norm + 1e-6f));
  clip_norm_ = 100;
  EXPECT_EQ(Run(1).clip_factor, 1.0f);
}

TEST_F(GradNormTest, OneElementThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e25f}) {
    f32_[2][77] = bad;  // the square of 1e25 overflows
    clip_norm_ = 1;
    const StepState state = Run(2);
    EXPECT_EQ(state.apply, 0);
    EXPECT_EQ(state.clip_factor, 1.0f);
    EXPECT_FALSE(std::isfinite(state.grad_norm));
  }
}

TEST_F(GradNormTest, FlagOfAnOperatorSkips) {
  nonfinite_ = 1;
  EXPECT_EQ(Run(1).apply, 0);
}

TEST_F(GradNormTest, NoValidTargetSkips) {
  inverse_count_ = 0;
  EXPECT_EQ(Run(1).apply, 0);
}

}  // namespace
}  // namespace coat
