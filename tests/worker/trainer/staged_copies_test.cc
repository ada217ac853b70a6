#include "worker/trainer/staged_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "configs/base/error.h"
#include "tests/support/late_ops.h"
#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kPiece = 64;

std::vector<uint8_t> Sequence(int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 7 % 251);
  return bytes;
}

class StagedCopiesTest : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Devices, StagedCopiesTest, ::testing::ValuesIn(TestDevices()),
                         DeviceCaseName);

TEST_P(StagedCopiesTest, ThereAndBack) {
  for (const int64_t count : {1, 63, 64, 65, 128, 1000}) {
    const std::vector<uint8_t> bytes = Sequence(count);
    const Tensor device = Out(DType::kU8, {count});
    StagedCopies copies(&ops(), kPiece);
    copies.ToDevice(device.data, count, [&](int64_t offset, int64_t size, void* out) {
      std::memcpy(out, bytes.data() + offset, static_cast<size_t>(size));
    });
    std::vector<uint8_t> back;
    copies.FromDevice(device.data, count, [&](const void* data, int64_t size) {
      const auto* first = static_cast<const uint8_t*>(data);
      back.insert(back.end(), first, first + size);
    });
    EXPECT_EQ(back, bytes) << count;
  }
}

// On a device that is late, whoever looks too early, or gives a piece away too soon, sees the
// wrong bytes.
TEST(StagedCopies, WaitForALateDevice) {
  LateOps ops;
  const std::vector<uint8_t> bytes = Sequence(1000);
  std::vector<uint8_t> device(bytes.size());
  {
    StagedCopies copies(&ops, kPiece);
    copies.ToDevice(device.data(), 1000, [&](int64_t offset, int64_t size, void* out) {
      std::memcpy(out, bytes.data() + offset, static_cast<size_t>(size));
    });
  }
  EXPECT_EQ(device, bytes);
  std::vector<uint8_t> back;
  std::vector<int64_t> sizes;
  StagedCopies copies(&ops, kPiece);
  copies.FromDevice(device.data(), 150, [&](const void* data, int64_t size) {
    const auto* first = static_cast<const uint8_t*>(data);
    back.insert(back.end(), first, first + size);
    sizes.push_back(size);
  });
  EXPECT_EQ(back, Sequence(150));
  EXPECT_THAT(sizes, ElementsAre(64, 64, 22));
}

TEST(StagedCopies, ErrorsOfTheSinkGoThroughAndTheNextCopyIsWhole) {
  LateOps ops;
  const std::vector<uint8_t> first = Sequence(300), second(300, 9);
  StagedCopies copies(&ops, kPiece);
  EXPECT_THROW(copies.FromDevice(first.data(), 300,
                                 [](const void*, int64_t) { throw Error(Code::kIo, "full"); }),
               Error);
  std::vector<uint8_t> back;
  copies.FromDevice(second.data(), 300, [&](const void* data, int64_t size) {
    const auto* begin = static_cast<const uint8_t*>(data);
    back.insert(back.end(), begin, begin + size);
  });
  EXPECT_EQ(back, second);
}

TEST(StagedCopies, NothingIsNotAPiece) {
  LateOps ops;
  StagedCopies copies(&ops, kPiece);
  copies.FromDevice(nullptr, 0, [](const void*, int64_t) { FAIL(); });
  copies.ToDevice(nullptr, 0, [](int64_t, int64_t, void*) { FAIL(); });
}

}  // namespace
}  // namespace coat
