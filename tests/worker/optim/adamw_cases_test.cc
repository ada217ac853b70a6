// CASES.md, "Numbers": what must hold for every optimizer state and every kind of master weight.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/worker/optim/adamw_problem.h"

namespace coat {
namespace {

struct Case {
  StateOption option;
  DType master;
};

class AdamWCasesTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, AdamWCasesTest, testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (const StateOption& option : kStateOptions) {
                             for (const DType master : {DType::kF32, DType::kBF16})
                               cases.push_back({option, master});
                           }
                           return cases;
                         }()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.option.name) +
                                  (info.param.master == DType::kF32 ? "_fp32" : "_bf16_sr");
                         });

// w = 1, updates of 1e-4 (half an ulp of BF16 is 2e-3), 1000 steps.
TEST_P(AdamWCasesTest, UpdatesBelowHalfAnUlpMove) {
  AdamWProblem problem(2048, GetParam().option, GetParam().master);
  for (int64_t i = 0; i < problem.count; ++i) {
    problem.SetParam(i, 1.0f);
    problem.SetGrad(i, 0.25f);
  }
  problem.args.lr = 1e-4f;
  ThreadPool pool(1);
  for (int step = 0; step < 1000; ++step) problem.Step(pool);
  double moved = 0;
  for (int64_t i = 0; i < problem.count; ++i) moved += 1.0 - problem.Param(i);
  EXPECT_NEAR(moved / static_cast<double>(problem.count), 0.1, 0.05 * 0.1);
}

// A NaN or an infinity in one gradient: nothing but the reported norm may change.
TEST_P(AdamWCasesTest, SkippedStepKeepsEveryBit) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e30f}) {
    AdamWProblem problem(300, GetParam().option, GetParam().master);
    problem.RandomParams(1);
    problem.args.lr = 1e-2f;
    problem.args.weight_decay = 0.1f;
    ThreadPool pool(1);
    for (int step = 0; step < 3; ++step) {
      problem.RandomGrads(step);
      problem.Step(pool);
    }
    const int32_t t = problem.state.t;
    const StepState before_state = problem.state;
    const std::string before = problem.Bytes();

    problem.SetGrad(17, bad);  // the square of 1e30 is infinite: the norm is not finite
    const Tensor grad = problem.View().grad;
    int32_t nonfinite = 0;
    float inverse_count = 1;
    GradNormArgs norm;
    norm.grads = std::span(&grad, 1);
    norm.nonfinite = Tensor(&nonfinite, DType::kI32, {1});
    norm.inverse_count = Tensor(&inverse_count, DType::kF32, {1});
    norm.clip_norm = 1;
    norm.state = problem.args.state;
    CpuGradNorm(norm, pool);
    ASSERT_EQ(problem.state.apply, 0);
    problem.Step(pool);
    EXPECT_EQ(problem.state.t, t);
    problem.state = before_state;
    EXPECT_EQ(problem.Bytes(), before);
  }
}

// Rows of an embedding that never get a gradient, 1000 steps, no weight decay. Rows of 96 elements
// share groups of 128 with rows that do.
TEST_P(AdamWCasesTest, NeverTouchedRowsKeepEveryBit) {
  constexpr int64_t kRows = 16, kWidth = 96;
  AdamWProblem problem(kRows * kWidth, GetParam().option, GetParam().master);
  problem.RandomParams(2);
  problem.args.lr = 1e-2f;
  const std::vector<char> first = problem.param;
  ThreadPool pool(1);
  for (int step = 0; step < 1000; ++step) {
    problem.RandomGrads(step);
    for (int64_t row = 1; row < kRows; row += 3) {
      for (int64_t i = 0; i < kWidth; ++i) problem.SetGrad(row * kWidth + i, 0.0f);
    }
    problem.Step(pool);
  }
  const int64_t row_bytes = kWidth * ElementBytes(GetParam().master);
  const int64_t m_bytes = kWidth * ElementBytes(GetParam().option.m);
  const int64_t v_bytes = kWidth * ElementBytes(GetParam().option.v);
  for (int64_t row = 0; row < kRows; ++row) {
    const bool touched = row % 3 != 1;
    const auto same = [&](const std::vector<char>& a, const std::vector<char>& b, int64_t bytes) {
      return std::memcmp(a.data() + row * bytes, b.data() + row * bytes, bytes) == 0;
    };
    EXPECT_EQ(same(problem.param, first, row_bytes), !touched) << "weights, row " << row;
    EXPECT_EQ(same(problem.m, std::vector<char>(problem.m.size()), m_bytes), !touched) << row;
    EXPECT_EQ(same(problem.v, std::vector<char>(problem.v.size()), v_bytes), !touched) << row;
  }
}

// Training goes on for tensors of one element and for tails of one element.
TEST_P(AdamWCasesTest, TailsOfOneElement) {
  for (const int64_t count : {1, 129}) {
    AdamWProblem problem(count, GetParam().option, GetParam().master);
    for (int64_t i = 0; i < count; ++i) {
      problem.SetParam(i, 1.0f);
      problem.SetGrad(i, i == count - 1 ? -0.5f : 0.125f);
    }
    problem.args.lr = 1e-2f;
    ThreadPool pool(1);
    for (int step = 0; step < 10; ++step) problem.Step(pool);
    // Ten steps of 0.01 sign(g); a BF16 moment is off by 2^-9, a BF16 weight by 2^-7 each time.
    const double weight = GetParam().master == DType::kF32 ? 10 * 0x1p-24 : 10 * 0x1p-7;
    const double tolerance = weight + 10 * 1e-2 * 0x1p-8;
    EXPECT_NEAR(problem.Param(count - 1), 1.1, tolerance) << count;
    if (count > 1) {
      EXPECT_NEAR(problem.Param(0), 0.9, tolerance);
    }
  }
}

}  // namespace
}  // namespace coat
