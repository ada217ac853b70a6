#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class RopeTest : public OpsTest {
 protected:
  struct Angles {
    std::vector<float> cos, sin;
  };
  static Angles MakeAngles(int64_t seq, int64_t head_size, int64_t first_position) {
    Angles out;
    for (int64_t t = 0; t < seq; ++t) {
      for (int64_t i = 0; i < head_size / 2; ++i) {
        const double angle = static_cast<double>(first_position + t) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / head_size);
        out.cos.push_back(static_cast<float>(std::cos(angle)));
        out.sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    return out;
  }
  RopeArgs Args(const AttentionShape& shape, const std::vector<float>& qkv, const Angles& angles) {
    RopeArgs args;
    args.shape = shape;
    args.qkv = Put(DType::kBF16, {shape.tokens(), shape.qkv_width()}, qkv);
    args.cos = Put(DType::kF32, {shape.seq, shape.head_size / 2}, angles.cos);
    args.sin = Put(DType::kF32, {shape.seq, shape.head_size / 2}, angles.sin);
    args.amax = Out(DType::kF32, {shape.tokens()});
    return args;
  }
  // FP64 rotation of q and k; v unchanged.
  static std::vector<double> Rotated(const AttentionShape& shape, const std::vector<float>& qkv,
                                     const Angles& angles, double sign) {
    std::vector<double> out = Widen(qkv);
    const int64_t half = shape.head_size / 2, width = shape.qkv_width();
    for (int64_t row = 0; row < shape.tokens(); ++row) {
      for (int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
        for (int64_t i = 0; i < half; ++i) {
          const int64_t first = row * width + head * shape.head_size + i;
          const int64_t angle = row % shape.seq * half + i;
          const double c = angles.cos[angle], s = sign * angles.sin[angle];
          out[first] = qkv[first] * c - qkv[first + half] * s;
          out[first + half] = qkv[first + half] * c + qkv[first] * s;
        }
      }
    }
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, RopeTest, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

const AttentionShape kShapes[] = {
    {2, 17, 4, 4, 18}, {1, 1, 2, 1, 64}, {3, 40, 6, 2, 96}, {1, 70, 2, 2, 256}};

TEST_P(RopeTest, RotatesQueriesAndKeysOnly) {
  for (const AttentionShape& shape : kShapes) {
    for (bool backward : {false, true}) {
      const int64_t count = shape.tokens() * shape.qkv_width();
      const std::vector<float> qkv = NormalBf16(count, 1.0, 1);
      const Angles angles = MakeAngles(shape.seq, shape.head_size, 0);
      RopeArgs args = Args(shape, qkv, angles);
      args.backward = backward;
      ops().Rope(args);
      const std::vector<float> got = Get(args.qkv), amax = Get(args.amax);
      ExpectClose(got, Rotated(shape, qkv, angles, backward ? -1 : 1), 0x1p-8, 1e-6, "qkv");
      const int64_t width = shape.qkv_width();
      for (int64_t row = 0; row < shape.tokens(); ++row) {
        float want = 0;
        for (int64_t i = row * width; i < (row + 1) * width; ++i) {
          want = std::max(want, std::fabs(got[i]));
        }
        EXPECT_EQ(amax[row], want);
      }
    }
  }
}

// Angles in BF16 would be wrong by radians at position 32767.
TEST_P(RopeTest, FarPositionsKeepTheirAngle) {
  const AttentionShape shape{1, 4, 1, 1, 64};
  const std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1);
  const Angles angles = MakeAngles(shape.seq, shape.head_size, 32764);
  const RopeArgs args = Args(shape, qkv, angles);
  ops().Rope(args);
  ExpectClose(Get(args.qkv), Rotated(shape, qkv, angles, 1), 0x1p-8, 1e-6, "qkv");
}

// The backward is the transpose of the forward: <R x, y> = <x, R^T y>.
TEST_P(RopeTest, BackwardIsTheTranspose) {
  const AttentionShape shape{2, 9, 2, 1, 16};
  const int64_t count = shape.tokens() * shape.qkv_width();
  const std::vector<float> x = NormalBf16(count, 1.0, 1), y = NormalBf16(count, 1.0, 2);
  const Angles angles = MakeAngles(shape.seq, shape.head_size, 0);
  const RopeArgs forward = Args(shape, x, angles);
  ops().Rope(forward);
  RopeArgs backward = Args(shape, y, angles);
  backward.backward = true;
  ops().Rope(backward);
  const std::vector<float> rx = Get(forward.qkv), ry = Get(backward.qkv);
  double left = 0, right = 0, magnitude = 0;
  for (int64_t i = 0; i < count; ++i) {
    left += static_cast<double>(rx[i]) * y[i];
    right += static_cast<double>(x[i]) * ry[i];
    magnitude += std::fabs(static_cast<double>(rx[i]) * y[i]);
  }
  EXPECT_NEAR(left, right, 0x1p-8 * magnitude);
}

}  // namespace
}  // namespace coat
