#include "worker/tensor/tensor.h"

#include <gtest/gtest.h>

#include <array>

#include "configs/base/error.h"

namespace coat {
namespace {

TEST(TensorTest, KnowsItsSizes) {
  std::array<float, 24> data{};
  const Tensor x(data.data(), DType::kF32, {2, 3, 4});
  EXPECT_EQ(x.rows(), 6);
  EXPECT_EQ(x.cols(), 4);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.bytes(), 96);
  EXPECT_TRUE(x.contiguous());
}

TEST(TensorTest, CountsPaddingAsStorage) {
  std::array<uint8_t, 64> data{};
  const Tensor x(data.data(), DType::kE4M3, {4, 9}, 16);
  EXPECT_EQ(x.numel(), 36);
  EXPECT_EQ(x.bytes(), 64);
  EXPECT_FALSE(x.contiguous());
}

TEST(TensorTest, OneDimensionIsOneRow) {
  std::array<uint16_t, 5> data{};
  const Tensor x(data.data(), DType::kBF16, {5});
  EXPECT_EQ(x.rows(), 1);
  EXPECT_EQ(x.cols(), 5);
  EXPECT_EQ(x.bytes(), 10);
}

TEST(TensorTest, DefaultIsAbsent) {
  const Tensor x;
  EXPECT_TRUE(x.empty());
  EXPECT_EQ(x.numel(), 0);
  EXPECT_EQ(x.bytes(), 0);
}

TEST(TensorTest, ViewsPointIntoTheSameMemory) {
  std::array<uint16_t, 40> data{};
  const Tensor x(data.data(), DType::kBF16, {4, 8}, 10);
  const Tensor rows = x.Row(1, 2);
  EXPECT_EQ(rows.as<uint16_t>(), data.data() + 10);
  EXPECT_EQ(rows.rows(), 2);
  EXPECT_EQ(rows.ld, 10);
  const Tensor columns = rows.Columns(3, 4);
  EXPECT_EQ(columns.as<uint16_t>(), data.data() + 13);
  EXPECT_EQ(columns.cols(), 4);
  EXPECT_EQ(columns.ld, 10);
}

TEST(TensorTest, RefusesViewsOutOfRange) {
  std::array<float, 32> data{};
  const Tensor x(data.data(), DType::kF32, {4, 8});
  EXPECT_THROW(x.Row(3, 2), Error);
  EXPECT_THROW(x.Columns(-1, 2), Error);
  EXPECT_THROW(x.Reshape({5, 8}), Error);
  EXPECT_THROW(x.Columns(0, 4).Reshape({16}), Error);
  EXPECT_EQ(x.Reshape({2, 16}).cols(), 16);
  EXPECT_THROW(Tensor(data.data(), DType::kF32, {4, 8}, 7), Error);
}

TEST(TensorTest, NamesTypesAsSafetensorsDoes) {
  EXPECT_STREQ(DTypeName(DType::kE4M3), "F8_E4M3");
  EXPECT_STREQ(DTypeName(DType::kE5M2), "F8_E5M2");
  EXPECT_STREQ(DTypeName(DType::kBF16), "BF16");
  EXPECT_EQ(ElementBytes(DType::kE5M2), 1);
  EXPECT_EQ(ElementBytes(DType::kU16), 2);
  EXPECT_EQ(ElementBytes(DType::kI32), 4);
}

}  // namespace
}  // namespace coat
