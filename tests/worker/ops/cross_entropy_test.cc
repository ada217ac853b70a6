#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class CrossEntropyTest : public OpsTest {
 protected:
  struct Result {
    std::vector<double> nll, dlogits;
  };
  static Result Reference(const std::vector<float>& logits, const std::vector<int32_t>& targets,
                          int64_t vocab, double inverse_count) {
    Result out;
    out.dlogits.resize(logits.size());
    for (size_t row = 0; row < targets.size(); ++row) {
      out.nll.push_back(0);
      if (targets[row] < 0) continue;
      const float* x = logits.data() + row * vocab;
      double max = -INFINITY, sum = 0;
      for (int64_t i = 0; i < vocab; ++i) max = std::max(max, static_cast<double>(x[i]));
      for (int64_t i = 0; i < vocab; ++i) sum += std::exp(x[i] - max);
      out.nll.back() = max + std::log(sum) - x[targets[row]];
      for (int64_t i = 0; i < vocab; ++i) {
        const double p = std::exp(x[i] - max) / sum;
        out.dlogits[row * vocab + i] = (p - (i == targets[row])) * inverse_count;
      }
    }
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropyTest, ::testing::ValuesIn(TestDevices()),
                         DeviceCaseName);

TEST_P(CrossEntropyTest, MatchesTheDefinition) {
  for (int64_t vocab : {5, 257, 32003, 50257}) {
    const int64_t rows = vocab > 1000 ? 5 : 17, ld = RoundUp(vocab, 64);
    const std::vector<float> logits = NormalBf16(rows * vocab, 4.0, 1);
    std::vector<int32_t> targets;
    for (int64_t row = 0; row < rows; ++row) {
      targets.push_back(static_cast<int32_t>((row * 7919) % vocab));
    }
    targets[1] = -1;
    targets[2] = static_cast<int32_t>(vocab - 1);
    const float inverse_count = 1.0f / 13;
    for (DType dtype : {DType::kBF16, DType::kF32}) {
      CrossEntropyArgs args;
      args.logits = Put(dtype, {rows, vocab}, logits, ld);  // padding stays NaN
      args.targets = PutInts(targets);
      args.inverse_count = PutScalar(inverse_count);
      args.dlogits = Out(DType::kBF16, {rows, vocab}, ld);
      args.nll = Out(DType::kF32, {rows});
      ops().CrossEntropy(args);
      const Result want = Reference(logits, targets, vocab, inverse_count);
      ExpectClose(Get(args.nll), want.nll, 0x1p-20, 0x1p-20, "nll");
      ExpectClose(Get(args.dlogits), want.dlogits, 0x1p-8, 1e-12, "dlogits");
      ExpectPaddingZero(args.dlogits);
    }
  }
}

TEST_P(CrossEntropyTest, InPlaceGivesTheSameBits) {
  const int64_t rows = 9, vocab = 257;
  const std::vector<float> logits = NormalBf16(rows * vocab, 2.0, 1);
  CrossEntropyArgs args;
  args.logits = Put(DType::kBF16, {rows, vocab}, logits);
  args.targets = PutInts({0, 1, 2, 3, -1, 5, 6, 256, 8});
  args.inverse_count = PutScalar(0.125f);
  args.dlogits = Out(DType::kBF16, {rows, vocab});
  args.nll = Out(DType::kF32, {rows});
  ops().CrossEntropy(args);
  const std::vector<uint8_t> apart = Bytes(args.dlogits), nll = Bytes(args.nll);
  args.dlogits = args.logits;
  ops().CrossEntropy(args);
  EXPECT_EQ(Bytes(args.logits), apart);
  EXPECT_EQ(Bytes(args.nll), nll);
}

TEST_P(CrossEntropyTest, WithoutGradients) {
  CrossEntropyArgs args;
  args.logits = Put(DType::kF32, {1, 3}, {0.0f, 0.0f, 0.0f});
  args.targets = PutInts({1});
  args.inverse_count = PutScalar(1.0f);
  args.nll = Out(DType::kF32, {1});
  ops().CrossEntropy(args);
  EXPECT_NEAR(Get(args.nll)[0], std::log(3.0), 1e-6);
}

TEST_P(CrossEntropyTest, LargeLogitsAndAFullyMaskedBatch) {
  CrossEntropyArgs args;
  args.logits = Put(DType::kF32, {3, 4}, {1e4f, -1e4f, 0, 0, 80, 80, 80, 80, 1, 2, 3, 4});
  args.targets = PutInts({0, 3, -1});
  args.inverse_count = PutScalar(0.0f);  // no valid target anywhere: no gradient, no NaN
  args.dlogits = Out(DType::kBF16, {3, 4});
  args.nll = Out(DType::kF32, {3});
  ops().CrossEntropy(args);
  ExpectClose(Get(args.nll), std::vector<double>{0, std::log(4.0), 0}, 1e-6, 1e-6, "nll");
  for (float value : Get(args.dlogits)) EXPECT_EQ(value, 0.0f);
}

TEST_P(CrossEntropyTest, GradientAgreesWithFiniteDifferences) {
  const int64_t vocab = 11;
  const std::vector<float> logits = NormalBf16(vocab, 1.0, 3);
  CrossEntropyArgs args;
  args.logits = Put(DType::kF32, {1, vocab}, logits);
  args.targets = PutInts({4});
  args.inverse_count = PutScalar(0.5f);
  args.dlogits = Out(DType::kBF16, {1, vocab});
  args.nll = Out(DType::kF32, {1});
  ops().CrossEntropy(args);
  const auto loss = [](const std::vector<double>& x) {
    double sum = 0;
    for (double v : x) sum += std::exp(v);
    return 0.5 * (std::log(sum) - x[4]);
  };
  std::vector<double> want;
  for (int64_t i = 0; i < vocab; ++i) want.push_back(CentralDifference(loss, Widen(logits), i));
  ExpectClose(Get(args.dlogits), want, 0x1p-8, 1e-8, "dlogits");
}

// Rows x vocabulary above 2^31. The rows before the last are masked, and masked rows are not read
// here: their pages never exist.
TEST(LargeCrossEntropyTest, IndicesBeyondThirtyTwoBits) {
  constexpr int64_t kVocab = 50257, kStride = 50304;
  constexpr int64_t kRows = (int64_t{1} << 31) / kVocab + 2;
  static_assert((kRows - 1) * kVocab > int64_t{1} << 31);
  const size_t bytes = size_t{2} * kRows * kStride;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* last = static_cast<uint16_t*>(memory) + (kRows - 1) * kStride;
  last[kVocab - 1] = Bf16FromFloat(8.0f);  // the other logits of the row are zero
  std::vector<int32_t> targets(kRows, -1);
  targets.back() = kVocab - 1;
  std::vector<float> nll(kRows, NAN);
  CrossEntropyArgs args;
  args.logits = Tensor(memory, DType::kBF16, {kRows, kVocab}, kStride);
  args.targets = Tensor(targets.data(), DType::kI32, {kRows});
  float inverse_count = 1;
  args.inverse_count = Tensor(&inverse_count, DType::kF32, {1});
  args.nll = Tensor(nll.data(), DType::kF32, {kRows});
  CreateOps("cpu", 1)->CrossEntropy(args);
  for (int64_t row = 0; row + 1 < kRows; ++row) ASSERT_EQ(nll[row], 0.0f) << row;
  // Sixteen running sums of equal addends, each addition off by 2^-25 at most, all the same way.
  EXPECT_NEAR(nll.back(), std::log(std::exp(8.0) + kVocab - 1) - 8.0, kVocab * 0x1p-29);
  ::munmap(memory, bytes);
}

TEST_P(CrossEntropyTest, NanReachesTheLoss) {
  CrossEntropyArgs args;
  args.logits = Put(DType::kF32, {2, 3}, {0, NAN, 1, 0, 1, 2});
  args.targets = PutInts({0, 0});
  args.inverse_count = PutScalar(1.0f);
  args.nll = Out(DType::kF32, {2});
  ops().CrossEntropy(args);
  EXPECT_TRUE(std::isnan(Get(args.nll)[0]));
  EXPECT_TRUE(std::isfinite(Get(args.nll)[1]));
}

}  // namespace
}  // namespace coat
