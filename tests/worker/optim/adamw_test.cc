#include "worker/ops/cpu/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "configs/base/error.h"
#include "tests/worker/optim/adamw_problem.h"

namespace coat {
namespace {

constexpr double kEps = 0x1p-24;  // half an ulp of FP32, relative

const StateOption& Fp32State() { return kStateOptions[5]; }

// AdamW as the paper writes it, FP64, moments never rounded.
struct ReferenceAdamW {
  std::vector<double> p, m, v;
  int t = 0;
  void Step(const AdamWProblem& problem, double clip) {
    const AdamWArgs& a = problem.args;
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = clip * problem.Grad(static_cast<int64_t>(i));
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * g;
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
      const double mhat = m[i] / (1 - std::pow(a.beta1, t));
      const double vhat = v[i] / (1 - std::pow(a.beta2, t));
      p[i] -= a.lr * (mhat / (std::sqrt(vhat) + a.eps) + a.weight_decay * p[i]);
    }
  }
};

TEST(AdamWTest, Fp32StateAgainstFp64) {
  for (const DType grad : {DType::kF32, DType::kBF16}) {
    AdamWProblem problem(1000, Fp32State(), DType::kF32, grad);
    problem.RandomParams(1);
    problem.args.lr = 1e-3f;
    problem.args.weight_decay = 0.1f;
    problem.state.clip_factor = 0.37f;
    ReferenceAdamW reference{{}, std::vector<double>(1000), std::vector<double>(1000)};
    for (int64_t i = 0; i < 1000; ++i) reference.p.push_back(problem.Param(i));
    ThreadPool pool(1);
    constexpr int kSteps = 100;
    for (int step = 0; step < kSteps; ++step) {
      problem.RandomGrads(100 + step);
      reference.Step(problem, problem.state.clip_factor);
      problem.Step(pool);
    }
    EXPECT_EQ(problem.state.t, kSteps);
    double worst = 0;
    for (int64_t i = 0; i < 1000; ++i) {
      worst = std::max(worst, std::abs(problem.Param(i) - reference.p[i]));
    }
    // A step rounds p (|p| < 0.25) once and computes lr x ratio (|ratio| <= 10) with about twenty
    // roundings, those of the moments' history included.
    EXPECT_LT(worst, kSteps * (0.25 * kEps + 1e-3 * 10 * 20 * kEps));
    EXPECT_GT(worst, 0);
  }
}

TEST(AdamWTest, SumsCopyAndAmaxDescribeTheNewWeights) {
  for (const DType param : {DType::kF32, DType::kBF16}) {
    AdamWProblem problem(5 * 128 + 1, kStateOptions[0], param);
    problem.RandomParams(2);
    problem.RandomGrads(3);
    problem.args.lr = 1e-2f;
    problem.amax = 1e9f;  // of an earlier step
    std::vector<float> before;
    for (int64_t i = 0; i < problem.count; ++i) before.push_back(problem.Param(i));
    ThreadPool pool(2);
    problem.Step(pool);
    double update_sq = 0, weight_sq = 0;
    float amax = 0;
    for (int64_t i = 0; i < problem.count; ++i) {
      const float p = problem.Param(i);
      // First step: mhat / sqrt(vhat) = sign(g), up to eps and rounding.
      const double g = problem.Grad(i);
      const double step = 1e-2 * g / (std::abs(g) + 1e-8);
      update_sq += step * step;
      weight_sq += static_cast<double>(p) * p;
      amax = std::max(amax, std::abs(p));
      ASSERT_EQ(problem.copy[i], Bf16FromFloat(p));
      // One BF16 step down or up, or one rounding.
      const double tolerance = param == DType::kF32 ? 2 * kEps : std::abs(p) * 0x1p-7 + 1e-9;
      ASSERT_NEAR(p, before[i] - step, tolerance + 1e-2 * 8 * kEps);
    }
    EXPECT_EQ(problem.amax, amax);
    EXPECT_NEAR(problem.state.update_sq, update_sq, update_sq * 20 * kEps);
    EXPECT_NEAR(problem.state.weight_sq, weight_sq, weight_sq * 20 * kEps);
  }
}

TEST(AdamWTest, WeightDecayOnlyWhereAsked) {
  for (const bool decay : {true, false}) {
    AdamWProblem problem(200, Fp32State(), DType::kF32);
    problem.RandomParams(4);
    problem.args.lr = 0.5f;
    problem.args.weight_decay = 0.25f;
    const float before = problem.Param(7);
    AdamWTensor tensor = problem.View();
    tensor.decay = decay;
    problem.args.tensors = std::span(&tensor, 1);
    ThreadPool pool(1);
    CpuAdamW(problem.args, pool);
    EXPECT_EQ(problem.Param(7), decay ? before - 0.5f * (0.25f * before) : before);
  }
}

TEST(AdamWTest, SameBitsForAnyNumberOfThreads) {
  for (const StateOption& option : kStateOptions) {
    std::string want;
    for (const int threads : {1, 2, 3}) {
      AdamWProblem problem(70'001, option, DType::kBF16);
      problem.RandomParams(5);
      problem.args.lr = 1e-2f;
      ThreadPool pool(threads);
      for (int step = 0; step < 3; ++step) {
        problem.RandomGrads(step);
        problem.Step(pool);
      }
      if (want.empty()) want = problem.Bytes();
      EXPECT_EQ(problem.Bytes(), want) << option.name << " threads " << threads;
    }
  }
}

// Two shards of a tensor, cut at a multiple of 128, give the bits of the whole.
TEST(AdamWTest, IndependentOfSharding) {
  constexpr int64_t kCount = 1000, kFirst = 384;
  for (const StateOption& option : kStateOptions) {
    AdamWProblem whole(kCount, option, DType::kBF16);
    AdamWProblem left(kFirst, option, DType::kBF16), right(kCount - kFirst, option, DType::kBF16);
    whole.RandomParams(6);
    for (int64_t i = 0; i < kCount; ++i) {
      (i < kFirst ? left : right).SetParam(i < kFirst ? i : i - kFirst, whole.Param(i));
    }
    ThreadPool pool(1);
    for (int step = 0; step < 3; ++step) {
      whole.RandomGrads(step);
      for (int64_t i = 0; i < kCount; ++i) {
        (i < kFirst ? left : right).SetGrad(i < kFirst ? i : i - kFirst, whole.Grad(i));
      }
      for (AdamWProblem* problem : {&whole, &left, &right}) {
        problem->id = 9;
        problem->args.seed = 77;
        problem->args.lr = 1e-3f;
        AdamWTensor tensor = problem->View();
        tensor.element_offset = problem == &right ? kFirst : 0;
        problem->args.tensors = std::span(&tensor, 1);
        CpuAdamW(problem->args, pool);
      }
    }
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(whole.Param(i), i < kFirst ? left.Param(i) : right.Param(i - kFirst))
          << option.name << " element " << i;
    }
  }
}

TEST(AdamWTest, StochasticRoundingFollowsSeedTensorAndStep) {
  const auto run = [](uint64_t seed, uint32_t id, int32_t t) {
    AdamWProblem problem(1024, Fp32State(), DType::kBF16);
    problem.RandomParams(8);
    problem.RandomGrads(9);
    problem.args.lr = 1e-4f;
    problem.args.seed = seed;
    problem.id = id;
    problem.state.t = t;
    ThreadPool pool(1);
    problem.Step(pool);
    return problem.param;
  };
  EXPECT_EQ(run(1, 2, 3), run(1, 2, 3));
  EXPECT_NE(run(1, 2, 3), run(2, 2, 3));
  EXPECT_NE(run(1, 2, 3), run(1, 3, 3));
  EXPECT_NE(run(1, 2, 3), run(1, 2, 4));
}

TEST(AdamWTest, NamesTheWrongArgument) {
  AdamWProblem problem(256, kStateOptions[0], DType::kF32);
  ThreadPool pool(1);
  const auto message = [&](const AdamWTensor& tensor) -> std::string {
    problem.args.tensors = std::span(&tensor, 1);
    try {
      CpuAdamW(problem.args, pool);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  AdamWTensor tensor = problem.View();
  EXPECT_EQ(message(tensor), "no error");
  tensor.m.k16 = Tensor();
  EXPECT_THAT(message(tensor), testing::HasSubstr("k16"));
  tensor = problem.View();
  tensor.grad = Tensor(problem.grad.data(), DType::kF32, {255});
  EXPECT_THAT(message(tensor), testing::HasSubstr("grad"));
  tensor = problem.View();
  tensor.element_offset = 64;
  EXPECT_THAT(message(tensor), testing::HasSubstr("128"));
  tensor = problem.View();
  tensor.v.values.dtype = DType::kU8;
  EXPECT_THAT(message(tensor), testing::HasSubstr("storage"));
}

}  // namespace
}  // namespace coat
