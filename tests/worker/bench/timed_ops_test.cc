#include "worker/bench/timed_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "worker/bench/buffers.h"

namespace coat {
namespace {

constexpr int64_t kTokens = 48;

class TimedOpsTest : public testing::Test {
 protected:
  TimedOpsTest() : ops_(CreateOps("cpu", 1), kTokens) {
    buffers_.Add("bf16", DType::kBF16, 64, 64);
    buffers_.Add("f32", DType::kF32, 64, 64);
    buffers_.Add("e4m3", DType::kE4M3, 64, 64);
    buffers_.Add("e5m2", DType::kE5M2, 64, 64);
    buffers_.Add("scale", DType::kF32, 1, 1);
    buffers_.Build("cpu", 1 << 24, &ops_);
    ops_.Reset();
  }
  Tensor View(const char* name, int64_t rows, int64_t cols) const {
    const Tensor whole = buffers_.Get(name);
    return Tensor(whole.data, whole.dtype, {rows, cols});
  }
  void Fp8Gemm(const char* a, int64_t m, int64_t n, int64_t k) {
    GemmArgs args;
    args.a = View(a, m, k);
    args.b = View("e4m3", n, k);
    args.a_scale = args.b_scale = buffers_.Vector("scale");
    args.c = View("bf16", m, n);
    ops_.Gemm(args);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const OperatorTime& time : ops_.Times()) names.push_back(time.name);
    std::sort(names.begin(), names.end());
    return names;
  }

  TimedOps ops_;
  Buffers buffers_;
};

TEST_F(TimedOpsTest, ProductsCarryRoleAndShape) {
  Fp8Gemm("e4m3", kTokens, 32, 16);
  Fp8Gemm("e5m2", kTokens, 16, 32);
  Fp8Gemm("e5m2", 32, 16, kTokens);
  GemmArgs bf16;
  bf16.a = View("bf16", kTokens, 32);
  bf16.b = View("bf16", kTokens, 16);
  bf16.c = View("f32", 32, 16);
  bf16.a_transposed = bf16.b_transposed = bf16.accumulate = true;
  ops_.Gemm(bf16);
  EXPECT_EQ(Names(),
            (std::vector<std::string>{
                "gemm dgrad 48x16x32 F8_E5M2xF8_E4M3", "gemm forward 48x32x16 F8_E4M3xF8_E4M3",
                "gemm wgrad 32x16x48 BF16xBF16 +=", "gemm wgrad 32x16x48 F8_E5M2xF8_E4M3"}));
}

TEST_F(TimedOpsTest, AddsCallsAndSortsByTime) {
  const Tensor small = View("f32", 1, 4);
  for (int i = 0; i < 3; ++i) ops_.Zero(small);
  ops_.Cast({buffers_.Get("bf16"), buffers_.Get("f32")});
  const std::vector<OperatorTime> times = ops_.Times();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_GE(times[0].seconds, times[1].seconds);
  for (const OperatorTime& time : times) EXPECT_EQ(time.calls, time.name == "zero" ? 3 : 1);
  ops_.Reset();
  EXPECT_TRUE(ops_.Times().empty());
}

}  // namespace
}  // namespace coat
