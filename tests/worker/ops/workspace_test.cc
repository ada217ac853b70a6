#include "worker/ops/workspace.h"

#include <gtest/gtest.h>

#include "configs/base/units.h"

namespace coat {
namespace {

WorkspaceShape Llama7b() {
  WorkspaceShape shape;
  shape.attention = {4, 2048, 32, 32, 128};
  shape.hidden = 4096;
  shape.intermediate = 11008;
  shape.vocab = 32000;
  shape.loss_rows = 1024;
  return shape;
}

TEST(WorkspaceTest, CpuStaysModestForLargeModels) {
  EXPECT_LE(WorkspaceBytes(DeviceType::kCpu, Llama7b()), 16 * kMiB);
  WorkspaceShape wide;
  wide.vocab = 128256;
  wide.hidden = 64;
  EXPECT_LE(WorkspaceBytes(DeviceType::kCpu, wide), 16 * kMiB);
}

TEST(WorkspaceTest, CpuGrowsWithTheSequenceAndTheHiddenSize) {
  WorkspaceShape shape = Llama7b();
  const int64_t before = WorkspaceBytes(DeviceType::kCpu, shape);
  shape.attention.seq = 32768;
  EXPECT_GT(WorkspaceBytes(DeviceType::kCpu, shape), before);
  shape = Llama7b();
  shape.hidden = 65536;
  EXPECT_GT(WorkspaceBytes(DeviceType::kCpu, shape), before);
}

TEST(WorkspaceTest, CudaHoldsTheLibraryAndTheAttentionGradients) {
  const WorkspaceShape shape = Llama7b();
  const int64_t bytes = WorkspaceBytes(DeviceType::kCuda, shape);
  EXPECT_GE(bytes, 64 * kMiB + shape.attention.tokens() * 4096 * 4);
  WorkspaceShape grouped = shape;
  grouped.attention.kv_heads = 8;
  EXPECT_GT(WorkspaceBytes(DeviceType::kCuda, grouped), bytes);
}

}  // namespace
}  // namespace coat
