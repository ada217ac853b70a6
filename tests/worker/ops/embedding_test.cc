#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/ops_fixture.h"

namespace coat {
namespace {

class EmbeddingTest : public OpsTest {
 protected:
  static std::vector<int32_t> Tokens(int64_t count, int32_t vocab, uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::vector<int32_t> out(static_cast<size_t>(count));
    for (int32_t& token : out) token = static_cast<int32_t>(generator() % vocab);
    return out;
  }
  static std::vector<int32_t> Order(const std::vector<int32_t>& tokens) {
    std::vector<int32_t> order(tokens.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return tokens[a] < tokens[b]; });
    return order;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, EmbeddingTest, ::testing::ValuesIn(TestDevices()),
                         DeviceCaseName);

TEST_P(EmbeddingTest, TakesRowsRoundedToBf16) {
  for (int32_t vocab : {257, 50257, 32003}) {
    const int64_t width = vocab == 257 ? 5120 : 72, count = 17;
    std::vector<int32_t> tokens = Tokens(count, vocab, 1);
    tokens[0] = vocab - 1;
    tokens[1] = 0;
    const std::vector<float> table = Normal(vocab * width, 1.0, 2);
    EmbeddingArgs args;
    args.tokens = PutInts(tokens);
    args.table = Put(DType::kF32, {vocab, width}, table);
    args.out = Out(DType::kBF16, {count, width});
    ops().Embedding(args);
    std::vector<float> want;
    for (int32_t token : tokens) {
      for (int64_t i = 0; i < width; ++i) {
        want.push_back(static_cast<float>(NearestBf16(table[token * width + i])));
      }
    }
    EXPECT_EQ(Get(args.out), want);
    args.table = Put(DType::kBF16, {vocab, width}, table);
    args.out = Out(DType::kBF16, {count, width});
    ops().Embedding(args);
    EXPECT_EQ(Get(args.out), want);
  }
}

TEST_P(EmbeddingTest, BackwardSumsEachTokenOnce) {
  const int64_t vocab = 50, width = 72, count = 1000;
  const std::vector<int32_t> tokens = Tokens(count, 40, 1);  // ten rows are never touched
  const std::vector<float> dout = NormalBf16(count * width, 1.0, 2);
  const std::vector<float> old = NormalBf16(vocab * width, 1.0, 3);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    EmbeddingBackwardArgs args;
    args.tokens = PutInts(tokens);
    args.order = PutInts(Order(tokens));
    args.dout = Put(DType::kBF16, {count, width}, dout);
    args.dtable = Put(dtype, {vocab, width}, old);
    ops().EmbeddingBackward(args);
    std::vector<double> want = Widen(old);
    for (int64_t i = 0; i < count * width; ++i) {
      want[tokens[i / width] * width + i % width] += dout[i];
    }
    const std::vector<float> got = Get(args.dtable);
    ExpectClose(got, want, dtype == DType::kF32 ? 0x1p-23 : 0x1p-8, 1e-4, "dtable");
    for (int64_t i = 40 * width; i < vocab * width; ++i) EXPECT_EQ(got[i], old[i]);
  }
}

TEST_P(EmbeddingTest, BackwardOfOneTokenRepeated) {
  const std::vector<int32_t> tokens(300, 2);
  EmbeddingBackwardArgs args;
  args.tokens = PutInts(tokens);
  args.order = PutInts(Order(tokens));
  args.dout = Put(DType::kBF16, {300, 8}, std::vector<float>(2400, 0.25f));
  args.dtable = Put(DType::kF32, {4, 8}, std::vector<float>(32, 1.0f));
  ops().EmbeddingBackward(args);
  const std::vector<float> got = Get(args.dtable);
  for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i / 8 == 2 ? 76.0f : 1.0f);
}

TEST_P(EmbeddingTest, TheCpuRefusesAnIdOutsideTheVocabulary) {
  if (!on_cpu()) return;  // device memory is not read by the host
  EmbeddingArgs args;
  args.tokens = PutInts({1, 9, 2});
  args.table = Put(DType::kF32, {9, 4}, std::vector<float>(36, 0.0f));
  args.out = Out(DType::kBF16, {3, 4});
  EXPECT_THROW(ops().Embedding(args), Error);
}

}  // namespace
}  // namespace coat
