#include <gtest/gtest.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

// Output and log-sum-exp; in the backward they are inputs like the others.
struct Reference {
  std::vector<double> o, lse;
};

class AttentionTest : public OpsTest {
 protected:
  static int64_t Column(const AttentionShape& shape, int part, int64_t head) {
    const int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const int64_t first[] = {head, shape.heads + kv_head, shape.heads + shape.kv_heads + kv_head};
    return first[part] * shape.head_size;
  }

  // Probabilities of one query row.
  static std::vector<double> Softmax(const AttentionShape& shape, const std::vector<double>& qkv,
                                     int64_t batch, int64_t head, int64_t t, double* lse) {
    const int64_t width = shape.qkv_width(), size = shape.head_size;
    const double* q = qkv.data() + (batch * shape.seq + t) * width + Column(shape, 0, head);
    std::vector<double> p;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= t; ++j) {
      const double* k = qkv.data() + (batch * shape.seq + j) * width + Column(shape, 1, head);
      double dot = 0;
      for (int64_t i = 0; i < size; ++i) dot += q[i] * k[i];
      p.push_back(dot / std::sqrt(static_cast<double>(size)));
      max = std::max(max, p.back());
    }
    for (double& x : p) sum += x = std::exp(x - max);
    for (double& x : p) x /= sum;
    *lse = max + std::log(sum);
    return p;
  }

  static Reference Forward(const AttentionShape& shape, const std::vector<double>& qkv) {
    Reference out;
    const int64_t width = shape.qkv_width(), size = shape.head_size;
    out.o.resize(static_cast<size_t>(shape.tokens() * shape.heads * size));
    for (int64_t batch = 0; batch < shape.batch; ++batch) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        for (int64_t t = 0; t < shape.seq; ++t) {
          double lse = 0;
          const std::vector<double> p = Softmax(shape, qkv, batch, head, t, &lse);
          out.lse.push_back(lse);
          double* o = out.o.data() + ((batch * shape.seq + t) * shape.heads + head) * size;
          for (int64_t j = 0; j <= t; ++j) {
            const double* v = qkv.data() + (batch * shape.seq + j) * width + Column(shape, 2, head);
            for (int64_t i = 0; i < size; ++i) o[i] += p[j] * v[i];
          }
        }
      }
    }
    return out;
  }

  // Closed form of the gradient of sum(dout o), with delta = sum(dout o) of the given, rounded o.
  static std::vector<double> Backward(const AttentionShape& shape, const std::vector<double>& qkv,
                                      const std::vector<double>& o,
                                      const std::vector<double>& dout) {
    std::vector<double> dqkv(qkv.size());
    const int64_t width = shape.qkv_width(), size = shape.head_size;
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    for (int64_t batch = 0; batch < shape.batch; ++batch) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        for (int64_t t = 0; t < shape.seq; ++t) {
          double lse = 0, delta = 0;
          const std::vector<double> p = Softmax(shape, qkv, batch, head, t, &lse);
          const int64_t row = batch * shape.seq + t;
          const double* d = dout.data() + (row * shape.heads + head) * size;
          const int64_t q = row * width + Column(shape, 0, head);
          const double* out = o.data() + (row * shape.heads + head) * size;
          for (int64_t i = 0; i < size; ++i) delta += d[i] * out[i];
          std::vector<double> dp;
          for (int64_t j = 0; j <= t; ++j) {
            const int64_t v = (batch * shape.seq + j) * width + Column(shape, 2, head);
            double dot = 0;
            for (int64_t i = 0; i < size; ++i) {
              dot += d[i] * qkv[v + i];
              dqkv[v + i] += p[j] * d[i];
            }
            dp.push_back(dot);
          }
          for (int64_t j = 0; j <= t; ++j) {
            const int64_t k = (batch * shape.seq + j) * width + Column(shape, 1, head);
            const double ds = p[j] * (dp[j] - delta) * scale;
            for (int64_t i = 0; i < size; ++i) {
              dqkv[q + i] += ds * qkv[k + i];
              dqkv[k + i] += ds * qkv[q + i];
            }
          }
        }
      }
    }
    return dqkv;
  }

  AttentionArgs RunForward(const AttentionShape& shape, const std::vector<float>& qkv) {
    WorkspaceShape workspace;
    workspace.attention = shape;
    UseWorkspace(workspace);
    AttentionArgs args;
    args.shape = shape;
    args.qkv = Put(DType::kBF16, {shape.tokens(), shape.qkv_width()}, qkv);
    args.o = Out(DType::kBF16, {shape.tokens(), shape.heads * shape.head_size});
    args.lse = Out(DType::kF32, {shape.batch, shape.heads, shape.seq});
    ops().Attention(args);
    return args;
  }

  AttentionBackwardArgs RunBackward(const AttentionArgs& forward, const std::vector<float>& dout) {
    const AttentionShape& shape = forward.shape;
    AttentionBackwardArgs args;
    args.shape = shape;
    args.qkv = forward.qkv;
    args.o = forward.o;
    args.lse = forward.lse;
    args.dout = Put(DType::kBF16, {shape.tokens(), shape.heads * shape.head_size}, dout);
    args.dqkv = Out(DType::kBF16, {shape.tokens(), shape.qkv_width()});
    args.deterministic = true;
    ops().AttentionBackward(args);
    return args;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AttentionTest, ::testing::ValuesIn(TestDevices()),
                         DeviceCaseName);

// batch, seq, heads, kv_heads, head size: every head size, grouped heads, lengths around blocks.
const AttentionShape kShapes[] = {{2, 64, 2, 2, 64},  {1, 192, 2, 1, 96}, {1, 320, 1, 1, 128},
                                  {1, 64, 2, 1, 256}, {2, 17, 6, 2, 64},  {3, 1, 4, 1, 64},
                                  {1, 129, 4, 2, 64}, {1, 1000, 1, 1, 64}};

TEST_P(AttentionTest, ForwardMatchesTheNaiveReference) {
  for (const AttentionShape& shape : kShapes) {
    const std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1);
    const AttentionArgs args = RunForward(shape, qkv);
    const Reference want = Forward(shape, Widen(qkv));
    // BF16 output; the GPU rounds probabilities to BF16, which adds 2^-9 of sum p |v|.
    ExpectClose(Get(args.o), want.o, 0x1p-8, PerDevice(1e-5, 0x1p-8), "o");
    ExpectClose(Get(args.lse), want.lse, 1e-5, 1e-5, "lse");
  }
}

TEST_P(AttentionTest, BackwardMatchesTheClosedForm) {
  for (const AttentionShape& shape : kShapes) {
    const std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1);
    const std::vector<float> dout =
        NormalBf16(shape.tokens() * shape.heads * shape.head_size, 1.0, 2);
    const AttentionBackwardArgs args = RunBackward(RunForward(shape, qkv), dout);
    const std::vector<double> want = Backward(shape, Widen(qkv), Widen(Get(args.o)), Widen(dout));
    // The GPU rounds p and ds to BF16, 2^-9 of each; sums over keys or queries of random signs.
    ExpectClose(Get(args.dqkv), want, 0x1p-8, PerDevice(1e-4, 0x1p-5), "dqkv");
  }
}

TEST_P(AttentionTest, ClosedFormAgreesWithFiniteDifferences) {
  const AttentionShape shape{1, 5, 2, 1, 4};
  const std::vector<double> qkv = Widen(NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1));
  const std::vector<double> dout = Widen(NormalBf16(shape.tokens() * 8, 1.0, 2));
  const std::vector<double> closed = Backward(shape, qkv, Forward(shape, qkv).o, dout);
  const auto f = [&](const std::vector<double>& x) {
    const Reference forward = Forward(shape, x);
    double sum = 0;
    for (size_t i = 0; i < dout.size(); ++i) sum += dout[i] * forward.o[i];
    return sum;
  };
  for (size_t i = 0; i < qkv.size(); ++i) {
    EXPECT_NEAR(closed[i], CentralDifference(f, qkv, i), 1e-7) << i;
  }
}

// A later token never changes an earlier output.
TEST_P(AttentionTest, IsCausal) {
  const AttentionShape shape{1, 130, 2, 2, 64};
  std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1);
  const std::vector<float> before = Get(RunForward(shape, qkv).o);
  const int64_t changed = 100;
  for (size_t i = static_cast<size_t>(changed * shape.qkv_width()); i < qkv.size(); ++i) {
    qkv[i] = 3.0f;
  }
  const std::vector<float> after = Get(RunForward(shape, qkv).o);
  const int64_t width = shape.heads * shape.head_size;
  for (int64_t i = 0; i < shape.tokens() * width; ++i) {
    if (i < changed * width) {
      ASSERT_EQ(before[i], after[i]) << i;
    }
  }
}

TEST_P(AttentionTest, SmallLogitsGiveTheMean) {
  const AttentionShape shape{1, 192, 1, 1, 64};
  std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1);
  for (int64_t row = 0; row < shape.tokens(); ++row) {
    for (int64_t i = 0; i < 128; ++i) qkv[row * shape.qkv_width() + i] *= 0x1p-20f;
  }
  const AttentionArgs args = RunForward(shape, qkv);
  ExpectClose(Get(args.o), Forward(shape, Widen(qkv)).o, 0x1p-8, PerDevice(1e-6, 0x1p-9), "o");
  const std::vector<float> lse = Get(args.lse);
  for (int64_t t = 0; t < shape.seq; ++t) EXPECT_NEAR(lse[t], std::log(t + 1.0), 1e-5);
}

TEST_P(AttentionTest, LargeLogitsStayFinite) {
  const AttentionShape shape{1, 70, 1, 1, 64};
  const std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 30.0, 1);
  const AttentionArgs args = RunForward(shape, qkv);
  const Reference want = Forward(shape, Widen(qkv));
  // FP32 logits of some hundreds carry errors of 1e-4, and so do the probabilities.
  ExpectClose(Get(args.o), want.o, 0x1p-7, PerDevice(0.1, 0.3), "o");
  for (float value : Get(RunBackward(args, NormalBf16(shape.tokens() * 64, 1.0, 2)).dqkv)) {
    ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(AttentionTest, RepeatsBitwise) {
  const AttentionShape shape{2, 128, 4, 2, 64};
  const std::vector<float> qkv = NormalBf16(shape.tokens() * shape.qkv_width(), 1.0, 1);
  const std::vector<float> dout = NormalBf16(shape.tokens() * 256, 1.0, 2);
  const AttentionBackwardArgs first = RunBackward(RunForward(shape, qkv), dout);
  const AttentionBackwardArgs second = RunBackward(RunForward(shape, qkv), dout);
  EXPECT_EQ(Bytes(first.o), Bytes(second.o));
  EXPECT_EQ(Bytes(first.dqkv), Bytes(second.dqkv));
}

}  // namespace
}  // namespace coat
