#include "worker/data/loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/worker/data/data_fixture.h"

namespace coat {
namespace {

using coatrack::v1::TOKEN_FORMAT_LLMC;
using coatrack::v1::TOKEN_FORMAT_UINT16;
using coatrack::v1::TOKEN_FORMAT_UINT32;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Counting(int64_t n, T first = 0) {
  std::vector<T> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

class LoaderTest : public DataTest {
 protected:
  // How often each (place of the target in the stream) is predicted, when ids are their own places.
  static void CountTargets(const Sample& sample, std::map<int32_t, int>* counts) {
    for (size_t i = 0; i < sample.targets.size(); ++i) {
      if (sample.targets[i] < 0) continue;
      EXPECT_EQ(sample.targets[i], sample.tokens[i] + 1);
      ++(*counts)[sample.targets[i]];
    }
  }
};

TEST_F(LoaderTest, TextIsBytesAndEachFileEndsADocument) {
  Write("a.txt", "Hi");
  Write("b.txt", "");
  Write("c.txt", "\xFF!");
  auto dataset = OpenDataset(TextSpec("*.txt", 6), root_, nullptr);
  EXPECT_EQ(dataset->tokens(), 7);
  EXPECT_EQ(dataset->vocab_size(), 257);
  ASSERT_EQ(dataset->train_samples(), 1);
  EXPECT_EQ(dataset->validation_samples(), 0);
  Sample sample = dataset->Train(0, 0);
  EXPECT_THAT(sample.tokens, ElementsAre('H', 'i', 256, 256, 255, '!'));
  EXPECT_THAT(sample.targets, ElementsAre('i', 256, 256, 255, '!', 256));
}

// Every length of the tail, every place of a shard boundary: no token lost, none counted twice.
TEST_F(LoaderTest, EachTokenIsPredictedOnceAnEpoch) {
  constexpr int64_t kLength = 5;
  for (int64_t n = kLength + 1; n <= 4 * kLength + 2; ++n) {
    for (int64_t cut : {int64_t{1}, n / 2, n - 1}) {
      std::vector<uint16_t> ids = Counting<uint16_t>(n);
      Write("0.bin", Ids(std::vector<uint16_t>(ids.begin(), ids.begin() + cut)));
      Write("1.bin", Ids(std::vector<uint16_t>(ids.begin() + cut, ids.end())));
      auto spec = TokenSpec("*.bin", kLength, 100, TOKEN_FORMAT_UINT16);
      spec.mutable_data()->set_validation_fraction(0.3);
      auto dataset = OpenDataset(spec, root_, nullptr);
      std::map<int32_t, int> counts;
      for (int64_t i = 0; i < dataset->train_samples(); ++i) {
        CountTargets(dataset->Train(1, i), &counts);
      }
      for (int64_t i = 0; i < dataset->validation_samples(); ++i) {
        CountTargets(dataset->Validation(i), &counts);
      }
      EXPECT_EQ(dataset->train_samples() + dataset->validation_samples(),
                (n - 1 + kLength - 1) / kLength);
      EXPECT_EQ(static_cast<int64_t>(counts.size()), n - 1) << n;
      for (auto [target, count] : counts) EXPECT_EQ(count, 1) << "target " << target << " of " << n;
    }
  }
}

TEST_F(LoaderTest, TailIsPaddedWithIgnoredTargets) {
  Write("a.bin", Ids(Counting<uint32_t>(7, 10)));
  auto dataset = OpenDataset(TokenSpec("a.bin", 4, 50'000, TOKEN_FORMAT_UINT32), root_, nullptr);
  EXPECT_EQ(dataset->vocab_size(), 17);
  ASSERT_EQ(dataset->train_samples(), 2);
  Sample sample = dataset->Train(0, dataset->Train(0, 0).tokens[0] == 10 ? 1 : 0);
  EXPECT_THAT(sample.tokens, ElementsAre(14, 15, 16, 0));
  EXPECT_THAT(sample.targets, ElementsAre(15, 16, -1, -1));
}

TEST_F(LoaderTest, LlmcFilesOfBothWidths) {
  Write("a.bin", Header(20240520, 1, 9) + Ids(Counting<uint16_t>(9, 60'000)));
  Write("b.bin", Header(20240801, 7, 8) + Ids(Counting<uint32_t>(8, 60'009)));
  auto spec = TokenSpec("[ab].bin", 16, 65'536, TOKEN_FORMAT_LLMC);
  auto dataset = OpenDataset(spec, root_, nullptr);
  EXPECT_EQ(dataset->tokens(), 17);
  EXPECT_EQ(dataset->vocab_size(), 60'017);
  std::vector<int32_t> expected(16);
  std::iota(expected.begin(), expected.end(), 60'000);
  EXPECT_EQ(dataset->Train(0, 0).tokens, expected);
  EXPECT_EQ(dataset->Train(0, 0).targets.back(), 60'016);
}

TEST_F(LoaderTest, Uint32ReachesAboveUint16) {
  Write("a.bin", Header(20240801, 7, 5) + Ids<uint32_t>({65'535, 65'536, 128'000, 70'000, 1}));
  auto dataset = OpenDataset(TokenSpec("a.bin", 4, 128'256, TOKEN_FORMAT_LLMC), root_, nullptr);
  EXPECT_THAT(dataset->Train(0, 0).tokens, ElementsAre(65'535, 65'536, 128'000, 70'000));
  EXPECT_EQ(dataset->vocab_size(), 128'001);
}

// Shards of 1 to 6 ids with windows of 17: "a shard shorter than one window".
TEST_F(LoaderTest, ShardsShorterThanAWindowAreJoined) {
  uint16_t next = 0;
  for (int shard = 0; shard < 6; ++shard) {
    Write(std::to_string(shard) + ".bin", Ids(Counting<uint16_t>(shard + 1, next)));
    next = static_cast<uint16_t>(next + shard + 1);
  }
  auto dataset = OpenDataset(TokenSpec("*.bin", 16, 100, TOKEN_FORMAT_UINT16), root_, nullptr);
  EXPECT_EQ(dataset->tokens(), 21);
  EXPECT_EQ(dataset->train_samples(), 2);
  std::map<int32_t, int> counts;
  for (int i = 0; i < 2; ++i) CountTargets(dataset->Train(0, i), &counts);
  EXPECT_EQ(counts.size(), 20u);
}

TEST_F(LoaderTest, EpochsAreDifferentOrdersOfTheSameSamples) {
  Write("a.bin", Ids(Counting<uint16_t>(201)));
  auto spec = TokenSpec("a.bin", 2, 300, TOKEN_FORMAT_UINT16);
  spec.mutable_train()->set_seed(5);
  auto dataset = OpenDataset(spec, root_, nullptr);
  spec.mutable_train()->set_seed(6);
  auto other = OpenDataset(spec, root_, nullptr);
  std::vector<int32_t> first, second, foreign;
  for (int64_t i = 0; i < dataset->train_samples(); ++i) {
    first.push_back(dataset->Train(0, i).tokens[0]);
    second.push_back(dataset->Train(1, i).tokens[0]);
    foreign.push_back(other->Train(0, i).tokens[0]);
  }
  EXPECT_NE(first, second);
  EXPECT_NE(first, foreign);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  std::set<int32_t> all(first.begin(), first.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(all, std::set<int32_t>(second.begin(), second.end()));
  EXPECT_EQ(all, std::set<int32_t>(foreign.begin(), foreign.end()));
}

TEST_F(LoaderTest, SplitHoldsTheFractionAndIgnoresTheSeed) {
  Write("a.bin", Ids(Counting<uint16_t>(2001)));
  auto spec = TokenSpec("a.bin", 2, 3000, TOKEN_FORMAT_UINT16);
  spec.mutable_data()->set_validation_fraction(0.05);
  std::vector<std::set<int32_t>> held_out;
  for (uint64_t seed : {1, 2}) {
    spec.mutable_train()->set_seed(seed);
    auto dataset = OpenDataset(spec, root_, nullptr);
    EXPECT_EQ(dataset->validation_samples(), 50);
    EXPECT_EQ(dataset->train_samples(), 950);
    std::set<int32_t> ids;
    for (int64_t i = 0; i < 50; ++i) ids.insert(dataset->Validation(i).tokens[0]);
    EXPECT_EQ(ids.size(), 50u);
    for (int64_t i = 0; i < 950; ++i) EXPECT_EQ(ids.count(dataset->Train(0, i).tokens[0]), 0u);
    held_out.push_back(ids);
  }
  EXPECT_EQ(held_out[0], held_out[1]);
}

// "Validation set smaller than the number of ranks": the count is exact, so nobody waits for more.
TEST_F(LoaderTest, ValidationMayBeTinyOrEmpty) {
  Write("a.bin", Ids(Counting<uint16_t>(11)));
  auto spec = TokenSpec("a.bin", 5, 100, TOKEN_FORMAT_UINT16);
  spec.mutable_data()->set_validation_fraction(0.001);
  auto dataset = OpenDataset(spec, root_, nullptr);
  EXPECT_EQ(dataset->validation_samples(), 1);  // above zero means at least one
  EXPECT_EQ(dataset->train_samples(), 1);

  spec.mutable_train()->set_sequence_length(10);  // a single window is trained on
  dataset = OpenDataset(spec, root_, nullptr);
  EXPECT_EQ(dataset->validation_samples(), 0);
  EXPECT_EQ(dataset->train_samples(), 1);
  Refusal refusal = RefusalOf([&] { dataset->Validation(0); });
  EXPECT_EQ(refusal.code, Code::kInvalidArgument);
  EXPECT_THAT(refusal.message, HasSubstr("validation sample 0 was asked for, there are 0"));

  spec.mutable_data()->clear_validation_fraction();  // default 0.05
  spec.mutable_train()->set_sequence_length(1);
  EXPECT_EQ(OpenDataset(spec, root_, nullptr)->validation_samples(), 1);
}

TEST_F(LoaderTest, FractionOutOfRangeIsRefused) {
  Write("a.bin", Ids(Counting<uint16_t>(11)));
  auto spec = TokenSpec("a.bin", 5, 100, TOKEN_FORMAT_UINT16);
  for (double fraction : {-0.1, 0.51, std::nan("")}) {
    spec.mutable_data()->set_validation_fraction(fraction);
    EXPECT_THAT(OpenRefusal(spec).message, HasSubstr("data.validation_fraction"));
  }
}

// Kill at every batch of a 3-epoch toy set, with a batch that does not divide the epoch: the ids
// before and after the kill are those of the uninterrupted run.
TEST_F(LoaderTest, ResumeAtEveryBatchOfThreeEpochs) {
  Write("a.bin", Ids(Counting<uint16_t>(23 * 2 + 1)));
  auto spec = TokenSpec("a.bin", 2, 100, TOKEN_FORMAT_UINT16);
  spec.mutable_train()->set_seed(11);
  constexpr int64_t kBatch = 4, kBatches = (3 * 23 + kBatch - 1) / kBatch;
  auto run = [&](const Dataset& dataset, int64_t batches, DataPosition* position,
                 std::vector<int32_t>* ids) {
    for (int64_t i = 0; i < batches; ++i) {
      for (const Sample& sample : NextSamples(dataset, kBatch, position)) {
        ids->push_back(sample.tokens[0]);
      }
    }
  };
  std::vector<int32_t> whole;
  DataPosition end;
  run(*OpenDataset(spec, root_, nullptr), kBatches, &end, &whole);
  EXPECT_EQ(end.epoch, 3);
  EXPECT_EQ(end.index, kBatches * kBatch - 3 * 23);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<int32_t> ids(whole.begin() + 23 * epoch, whole.begin() + 23 * (epoch + 1));
    EXPECT_EQ(ids.size(), 23u) << "epoch " << epoch;
  }
  for (int64_t killed_at = 0; killed_at <= kBatches; ++killed_at) {
    std::vector<int32_t> ids;
    DataPosition position;
    run(*OpenDataset(spec, root_, nullptr), killed_at, &position, &ids);
    DataPosition restored{position.epoch, position.index};  // what a checkpoint holds
    run(*OpenDataset(spec, root_, nullptr), kBatches - killed_at, &restored, &ids);
    EXPECT_EQ(ids, whole) << "killed at batch " << killed_at;
  }
}

TEST_F(LoaderTest, ABatchMayHoldSeveralEpochs) {
  Write("a.bin", Ids(Counting<uint16_t>(4)));
  auto dataset = OpenDataset(TokenSpec("a.bin", 1, 100, TOKEN_FORMAT_UINT16), root_, nullptr);
  DataPosition position;
  std::map<int32_t, int> counts;
  for (const Sample& sample : NextSamples(*dataset, 8, &position)) ++counts[sample.tokens[0]];
  EXPECT_EQ(position.epoch, 2);
  EXPECT_EQ(position.index, 2);
  EXPECT_EQ(counts.size(), 3u);
  NextSamples(*dataset, 1, &position);
  EXPECT_EQ(position.epoch, 3);
  EXPECT_EQ(position.index, 0);
}

TEST_F(LoaderTest, ForeignPositionIsRefused) {
  Write("a.bin", Ids(Counting<uint16_t>(4)));
  auto dataset = OpenDataset(TokenSpec("a.bin", 1, 100, TOKEN_FORMAT_UINT16), root_, nullptr);
  for (DataPosition position : {DataPosition{0, 3}, DataPosition{0, -1}, DataPosition{-1, 0}}) {
    Refusal refusal = RefusalOf([&] { NextSamples(*dataset, 1, &position); });
    EXPECT_EQ(refusal.code, Code::kInvalidArgument);
    EXPECT_THAT(refusal.message, HasSubstr("belongs to other data"));
  }
}

}  // namespace
}  // namespace coat
