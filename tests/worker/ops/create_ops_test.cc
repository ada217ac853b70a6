#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

void ExpectRefused(const std::string& device, const std::string& text) {
  try {
    CreateOps(device, 1);
    FAIL() << "created " << device;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kFailedPrecondition);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

TEST(CreateOpsTest, MakesTheCpuBackend) {
  EXPECT_EQ(CreateOps("cpu", 2)->device(), DeviceType::kCpu);
}

TEST(CreateOpsTest, NamesADeviceItDoesNotKnow) {
  ExpectRefused("tpu", "tpu");
  ExpectRefused("", "cuda:<uuid or index>");
}

TEST(CreateOpsTest, RefusesAGpuThatIsNotThere) { ExpectRefused("cuda:77", "cuda:77"); }

// Row operators write the same bits with any number of threads.
TEST(CreateOpsTest, ThreadCountDoesNotChangeRowOperators) {
  const int64_t rows = 517, cols = 200;
  std::vector<std::vector<uint16_t>> dx;
  std::vector<std::vector<float>> dgamma;
  for (int threads : {1, 3}) {
    const std::unique_ptr<Ops> ops = CreateOps("cpu", threads);
    WorkspaceShape shape;
    shape.hidden = cols;
    std::vector<uint8_t> workspace(static_cast<size_t>(WorkspaceBytes(DeviceType::kCpu, shape)));
    ops->SetWorkspace(
        Tensor(workspace.data(), DType::kU8, {static_cast<int64_t>(workspace.size())}));
    std::vector<uint16_t> x, dy, out(static_cast<size_t>(rows * cols));
    for (float v : Normal(rows * cols, 1.0, 1)) x.push_back(Bf16FromFloat(v));
    for (float v : Normal(rows * cols, 1.0, 2)) dy.push_back(Bf16FromFloat(v));
    std::vector<float> rstd = Normal(rows, 1.0, 3), gamma = Normal(cols, 1.0, 4);
    std::vector<float> gradient(static_cast<size_t>(cols), 0.0f);
    NormBackwardArgs args;
    args.dy = Tensor(dy.data(), DType::kBF16, {rows, cols});
    args.x.bf16 = Tensor(x.data(), DType::kBF16, {rows, cols});
    args.rstd = Tensor(rstd.data(), DType::kF32, {rows});
    args.gamma = Tensor(gamma.data(), DType::kF32, {cols});
    args.dresidual_out = Tensor(out.data(), DType::kBF16, {rows, cols});
    args.dgamma = Tensor(gradient.data(), DType::kF32, {cols});
    ops->NormBackward(args);
    dx.push_back(out);
    dgamma.push_back(gradient);
  }
  EXPECT_EQ(dx[0], dx[1]);
  EXPECT_EQ(dgamma[0], dgamma[1]);
}

}  // namespace
}  // namespace coat
