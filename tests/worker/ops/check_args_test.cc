#include "worker/ops/check_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "configs/base/error.h"

namespace coat {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Views of one small buffer: only shapes and types are looked at.
class CheckArgsTest : public ::testing::Test {
 protected:
  Tensor View(DType dtype, std::initializer_list<int64_t> dims, int64_t ld = 0) {
    return Tensor(byte_.data(), dtype, dims, ld);
  }

  template <typename Args>
  void ExpectRefused(const Args& args, const std::string& where, const std::string& what) {
    try {
      CheckArgs(args);
      FAIL() << "accepted " << where;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInternal);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(where), HasSubstr(what)));
    }
  }

  AddNormArgs AddNorm() {
    AddNormArgs args;
    args.residual = View(DType::kBF16, {4, 40});
    args.q8 = {View(DType::kE4M3, {4, 40}), View(DType::kBF16, {4, 3}), 1};
    args.gamma = View(DType::kF32, {40});
    args.rstd = View(DType::kF32, {4});
    return args;
  }

  std::array<char, 1> byte_{};
};

TEST_F(CheckArgsTest, AcceptsLeadingDimensions) {
  AddNormArgs args = AddNorm();
  args.residual = View(DType::kBF16, {2, 2, 40});
  EXPECT_NO_THROW(CheckArgs(args));
}

TEST_F(CheckArgsTest, NamesShapesAndTypes) {
  AddNormArgs args = AddNorm();
  args.gamma = View(DType::kF32, {41});
  ExpectRefused(args, "AddNorm: gamma", "40");
  args = AddNorm();
  args.rstd = View(DType::kBF16, {4});
  ExpectRefused(args, "AddNorm: rstd", "F32");
  args = AddNorm();
  args.q8.scales = View(DType::kBF16, {4, 2});
  ExpectRefused(args, "AddNorm: q8.scales", "12");
  args = AddNorm();
  args.branch = View(DType::kBF16, {4, 40});
  ExpectRefused(args, "AddNorm: residual_out", "nothing");
}

TEST_F(CheckArgsTest, ActivationsAreOneOfTwo) {
  NormApplyArgs args;
  args.rstd = View(DType::kF32, {4});
  args.gamma = View(DType::kF32, {40});
  args.out = View(DType::kBF16, {4, 40});
  ExpectRefused(args, "NormApply: x", "either bf16 or q8");
  args.x.bf16 = View(DType::kBF16, {4, 40});
  EXPECT_NO_THROW(CheckArgs(args));
  args.scale = View(DType::kF32, {1});
  ExpectRefused(args, "NormApply: scale", "BF16 output");
  args.out_transposed = View(DType::kE4M3, {40, 4}, 16);
  ExpectRefused(args, "NormApply: out", "F8_E4M3");
}

TEST_F(CheckArgsTest, GroupsNeverStraddleSegments) {
  EXPECT_EQ(GroupsPerRow(40, 1), 3);
  EXPECT_EQ(GroupsPerRow(40, 2), 4);
  EXPECT_EQ(GroupsPerRow(32, 2), 2);
}

TEST_F(CheckArgsTest, Fp8OperandsOfAGemm) {
  GemmArgs args;
  args.a = View(DType::kE4M3, {4, 40}, 48);
  args.b = View(DType::kE4M3, {5, 40}, 48);
  args.c = View(DType::kBF16, {4, 5});
  ExpectRefused(args, "Gemm: a_scale", "nothing");
  args.a_scale = args.b_scale = View(DType::kF32, {1});
  EXPECT_NO_THROW(CheckArgs(args));
  args.b = View(DType::kE4M3, {5, 40});
  ExpectRefused(args, "Gemm: b", "multiple of 16");
  args.b = View(DType::kE4M3, {40, 5}, 16);
  args.b_transposed = true;
  ExpectRefused(args, "Gemm: b", "stored along k");
}

TEST_F(CheckArgsTest, AttentionShapes) {
  AttentionArgs args;
  args.shape = {1, 8, 3, 2, 16};
  args.qkv = View(DType::kBF16, {8, 112});
  ExpectRefused(args, "Attention: shape", "kv_heads dividing heads");
  args.shape.heads = 4;
  ExpectRefused(args, "Attention: qkv", "128");
}

}  // namespace
}  // namespace coat
