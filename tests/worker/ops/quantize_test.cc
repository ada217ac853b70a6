// Amax, AmaxToScale, Quantize, Transpose and Cast.
#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class QuantizeTest : public OpsTest {
 protected:
  // Amax, scale and codes of `x`; returns the scale.
  float QuantizeAll(const std::vector<float>& x, int64_t rows, int64_t cols, DType format,
                    const Tensor& codes) {
    const Tensor input = Put(DType::kF32, {rows, cols}, x);
    const Tensor amax = Out(DType::kF32, {rows}), scale = Out(DType::kF32, {1});
    const Tensor nonfinite = PutInts({0});
    ops().Amax({input, amax});
    ops().AmaxToScale({amax, format, scale, nonfinite});
    ops().Quantize({input, scale, codes, {}});
    EXPECT_EQ(GetInt(nonfinite), 0);
    return Get(scale)[0];
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, QuantizeTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

struct Shape {
  int64_t rows, cols;
};
const Shape kShapes[] = {{1, 1},    {1, 72},   {17, 72},    {33, 257},
                         {16, 512}, {5, 5120}, {1000, 100}, {344, 128}};

TEST_P(QuantizeTest, MatchesTheDefinitionInBothLayouts) {
  for (const auto& [rows, cols] : kShapes) {
    for (DType format : {DType::kE4M3, DType::kE5M2}) {
      for (DType input : {DType::kBF16, DType::kF32}) {
        const std::vector<float> x =
            input == DType::kBF16 ? NormalBf16(rows * cols, 3.0, 1) : Normal(rows * cols, 3.0, 1);
        float amax = 0;
        for (float value : x) amax = std::max(amax, std::fabs(value));
        const float scale = ReferenceScale(format, amax);
        std::vector<uint8_t> want;
        for (float value : x) want.push_back(NearestCode(format, value * (1.0f / scale)));
        QuantizeArgs args;
        args.x = Put(input, {rows, cols}, x);
        const Tensor partials = Out(DType::kF32, {rows}), nonfinite = PutInts({0});
        args.scale = Out(DType::kF32, {1});
        args.codes = OutFp8(format, rows, cols);
        args.codes_transposed = OutFp8(format, cols, rows);
        ops().Amax({args.x, partials});
        ops().AmaxToScale({partials, format, args.scale, nonfinite});
        ops().Quantize(args);
        EXPECT_EQ(Get(args.scale)[0], scale);
        EXPECT_EQ(GetInt(nonfinite), 0);
        EXPECT_EQ(Codes(args.codes), want);
        ExpectTransposed(args.codes, args.codes_transposed);
        ExpectPaddingZero(args.codes);
        ExpectPaddingZero(args.codes_transposed);
        const Tensor turned = OutFp8(format, cols, rows);
        ops().Transpose({args.codes, turned});
        EXPECT_EQ(Bytes(turned), Bytes(args.codes_transposed));
      }
    }
  }
}

TEST_P(QuantizeTest, ZeroTensorStaysZero) {
  const Tensor codes = OutFp8(DType::kE4M3, 3, 40);
  EXPECT_EQ(QuantizeAll(std::vector<float>(120, 0.0f), 3, 40, DType::kE4M3, codes), 1.0f);
  EXPECT_EQ(Codes(codes), std::vector<uint8_t>(120, 0));
}

TEST_P(QuantizeTest, TinyAmaxKeepsAFiniteScale) {
  for (DType format : {DType::kE4M3, DType::kE5M2}) {
    for (float amax : {0x1p-149f, 1e-40f, 1e-38f, 1e-37f}) {
      const Tensor codes = OutFp8(format, 1, 2);
      const float scale = QuantizeAll({amax, -amax / 2}, 1, 2, format, codes);
      EXPECT_EQ(scale, ReferenceScale(format, amax));
      const float inverse = 1.0f / scale;
      EXPECT_EQ(Codes(codes)[0], NearestCode(format, amax * inverse)) << amax;
      EXPECT_TRUE(std::isfinite(Get(codes)[0] * scale));
    }
  }
}

TEST_P(QuantizeTest, AmaxOfEveryRow) {
  const int64_t rows = 70, cols = 300;
  const std::vector<float> x = Normal(rows * cols, 1.0, 9);
  const Tensor amax = Out(DType::kF32, {rows});
  ops().Amax({Put(DType::kF32, {rows, cols}, x), amax});
  const std::vector<float> got = Get(amax);
  for (int64_t row = 0; row < rows; ++row) {
    float want = 0;
    for (int64_t i = 0; i < cols; ++i) want = std::max(want, std::fabs(x[row * cols + i]));
    EXPECT_EQ(got[row], want);
  }
}

TEST_P(QuantizeTest, NotFiniteRaisesTheFlagAndStaysVisible) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = NormalBf16(64, 1.0, 1);
    x[37] = bad;
    const Tensor input = Put(DType::kBF16, {4, 16}, x), amax = Out(DType::kF32, {4});
    const Tensor scale = Out(DType::kF32, {1}), nonfinite = PutInts({0});
    const Tensor codes = OutFp8(DType::kE5M2, 4, 16);
    ops().Amax({input, amax});
    EXPECT_FALSE(std::isfinite(Get(amax)[2]));
    ops().AmaxToScale({amax, DType::kE5M2, scale, nonfinite});
    EXPECT_EQ(Get(scale)[0], 1.0f);
    EXPECT_EQ(GetInt(nonfinite), 1);
    ops().Quantize({input, scale, codes, {}});
    EXPECT_EQ(Codes(codes)[37], 0x7F);
  }
}

TEST_P(QuantizeTest, FlagStaysRaised) {
  const Tensor scale = Out(DType::kF32, {1}), nonfinite = PutInts({1});
  ops().AmaxToScale({PutScalar(2.0f), DType::kE4M3, scale, nonfinite});
  EXPECT_EQ(GetInt(nonfinite), 1);
}

TEST_P(QuantizeTest, CastRoundsToNearestEven) {
  const int64_t count = 70000;
  std::vector<float> x = Normal(count, 100.0, 3);
  x[0] = 0x1.01p0f;  // ties
  x[1] = 0x1.03p0f;
  const Tensor wide = Put(DType::kF32, {7, count / 7}, x), narrow = Out(DType::kBF16, {count});
  ops().Cast({wide, narrow});
  std::vector<float> want;
  for (float value : x) want.push_back(static_cast<float>(NearestBf16(value)));
  EXPECT_EQ(Get(narrow), want);
  const Tensor back = Out(DType::kF32, {count});
  ops().Cast({narrow, back});
  EXPECT_EQ(Get(back), want);
}

}  // namespace
}  // namespace coat
