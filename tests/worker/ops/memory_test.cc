#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class MemoryOpsTest : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Devices, MemoryOpsTest, ::testing::ValuesIn(TestDevices()),
                         DeviceCaseName);

TEST_P(MemoryOpsTest, MovesWholeRowsWithTheirPadding) {
  const Tensor from = Out(DType::kE4M3, {3, 9}, 16), to = Out(DType::kE4M3, {3, 9}, 16);
  std::vector<uint8_t> host(48);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<uint8_t>(i);
  ops().ToDevice(host.data(), from);
  ops().Copy(from, to);
  EXPECT_EQ(Bytes(to), host);
  ops().Zero(to);
  EXPECT_EQ(Bytes(to), std::vector<uint8_t>(48, 0));
  EXPECT_EQ(Bytes(from), host);
}

TEST_P(MemoryOpsTest, CopyRefusesDifferentSizes) {
  const Tensor from = PutScalar(1.0f), to = Out(DType::kF32, {2});
  EXPECT_THROW(ops().Copy(from, to), Error);
}

}  // namespace
}  // namespace coat
