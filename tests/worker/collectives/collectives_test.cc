#include "worker/collectives/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "configs/base/error.h"
#include "tests/support/process.h"
#include "worker/collectives/reduce.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

constexpr bool kHaveGloo = COAT_HAVE_GLOO;

enum class Kind { kLocal, kGloo };

struct Case {
  Kind kind;
  int world_size;
};

// All ranks of a world as threads of this process, each with its own object.
class World {
 public:
  World(const Case& c, int timeout_ms) : size_(c.world_size) {
    if (c.kind == Kind::kLocal) {
      ranks_ = CreateLocalCollectives(size_, timeout_ms);
      return;
    }
    ranks_.resize(static_cast<size_t>(size_));
    Run([&](int rank) {
      const std::unique_ptr<RendezvousStore> store = CreateFileStore(dir_.file("store"));
      CollectiveOptions options;
      options.rank = rank;
      options.world_size = size_;
      options.connect_timeout_ms = 10'000;
      options.timeout_ms = timeout_ms;
      ranks_[static_cast<size_t>(rank)] = CreateGlooCollectives(options, store.get());
    });
  }

  template <typename Body>
  void Run(const Body& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }

  Collectives& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  void Kill(int r) { ranks_[static_cast<size_t>(r)].reset(); }
  int size() const { return size_; }

 private:
  const int size_;
  TempDir dir_;
  std::vector<std::unique_ptr<Collectives>> ranks_;
};

// Values of many magnitudes, so that another order of summation gives other bits.
std::vector<float> Values(int rank, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t x = 2463534242u + static_cast<uint32_t>(rank) * 7919u;
  for (float& value : values) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    value = std::ldexp(static_cast<float>(x & 0xFFFFFF) - 8388608.0f, static_cast<int>(x >> 28));
  }
  return values;
}

Error ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::kOk, "no error");
}

class CollectivesTest : public ::testing::TestWithParam<Case> {};

TEST_P(CollectivesTest, AllReduceAddsInRankOrderOnEveryRank) {
  World world(GetParam(), 20'000);
  // Zero, fewer elements than ranks, uneven shares, several rounds of staging.
  for (const int64_t count : {0, 1, 2, 127, 1000, 300'007}) {
    std::vector<std::vector<float>> values;
    for (int r = 0; r < world.size(); ++r) values.push_back(Values(r, count));
    std::vector<float> expected = values[0];
    for (int r = 1; r < world.size(); ++r) {
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += values[static_cast<size_t>(r)][i];
    }
    world.Run([&](int rank) {
      std::vector<float>& mine = values[static_cast<size_t>(rank)];
      world.rank(rank).AllReduceSum(Tensor(mine.data(), DType::kF32, {count}));
    });
    for (int r = 0; r < world.size(); ++r) {
      ASSERT_EQ(values[static_cast<size_t>(r)], expected)
          << "rank " << r << ", " << count << " elements";
    }
  }
}

TEST_P(CollectivesTest, StartedSumsHaveTheBitsOfBlockingOnes) {
  World world(GetParam(), 20'000);
  const std::vector<int64_t> counts = {300'007, 0, 1, 1000, 127};
  const auto sums = [&](const std::function<void(Collectives*, const Tensor&)>& sum) {
    std::vector<std::vector<std::vector<float>>> values(static_cast<size_t>(world.size()));
    world.Run([&](int rank) {
      auto& mine = values[static_cast<size_t>(rank)];
      for (const int64_t count : counts) mine.push_back(Values(rank, count));
      for (std::vector<float>& x : mine) {
        sum(&world.rank(rank), Tensor(x.data(), DType::kF32, {static_cast<int64_t>(x.size())}));
      }
      world.rank(rank).Finish();
    });
    return values;
  };
  const auto expected =
      sums([](Collectives* collectives, const Tensor& x) { collectives->AllReduceSum(x); });
  // The second time the thread is there already.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        sums([](Collectives* collectives, const Tensor& x) { collectives->StartAllReduceSum(x); }),
        expected);
  }
  world.Run([&](int rank) {
    EXPECT_EQ(world.rank(rank).sequence(), 3 * counts.size());
    EXPECT_EQ(world.rank(rank).AllGather(rank).size(), static_cast<size_t>(world.size()));
    const ReduceTimes times = world.rank(rank).reduce_times();
    if (world.size() > 1) {
      EXPECT_GT(times.busy_seconds, 0);
    }
    EXPECT_LE(times.waited_seconds, times.busy_seconds + 1);
  });
}

TEST_P(CollectivesTest, OtherCallsAreForAfterFinish) {
  if (GetParam().world_size == 1) return;  // nothing is pending there
  World world(GetParam(), 20'000);
  std::vector<float> sums(static_cast<size_t>(world.size()), 1.0f);
  world.Run([&](int rank) {
    Collectives& mine = world.rank(rank);
    const Tensor x(&sums[static_cast<size_t>(rank)], DType::kF32, {1});
    mine.StartAllReduceSum(x);
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { mine.AllReduceSum(x); }, [&] { mine.Broadcast(x, 0); },
             [&] { mine.AllGather(1); }, [&] { mine.Barrier(); }}) {
      const Error error = ErrorOf(call);
      EXPECT_EQ(error.code(), Code::kInternal);
      EXPECT_THAT(error.what(), HasSubstr("started and not finished"));
    }
    mine.Finish();
    mine.Barrier();
  });
  for (const float sum : sums) EXPECT_EQ(sum, static_cast<float>(world.size()));
}

TEST_P(CollectivesTest, APeerThatDiesFailsTheSumsThatWereStarted) {
  if (GetParam().world_size == 1) return;
  World world(GetParam(), 20'000);
  const int dying = world.size() - 1;
  const auto start = std::chrono::steady_clock::now();
  world.Run([&](int rank) {
    std::vector<float> first(1000, 1.0f), second(100'000, 1.0f);
    Collectives& mine = world.rank(rank);
    mine.StartAllReduceSum(Tensor(first.data(), DType::kF32, {1000}));
    if (rank == dying) {
      mine.Finish();
      world.Kill(rank);
      return;
    }
    const Error error = ErrorOf([&] {
      mine.StartAllReduceSum(Tensor(second.data(), DType::kF32, {100'000}));
      mine.Finish();
    });
    EXPECT_EQ(error.code(), Code::kCollective) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("is gone"));
    world.Kill(rank);  // as the end of its process does: another one may wait for this one
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

TEST_P(CollectivesTest, EndsWhileASumWaitsForOthers) {
  if (GetParam().world_size == 1) return;
  World world(GetParam(), 60'000);
  std::vector<float> values(100'000, 1.0f);
  world.rank(0).StartAllReduceSum(Tensor(values.data(), DType::kF32, {100'000}));
  const auto start = std::chrono::steady_clock::now();
  world.Kill(0);  // the others never call
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_P(CollectivesTest, Bf16IsSummedInFp32AndRoundedOnce) {
  World world(GetParam(), 20'000);
  // 1 + 2^-9 + 2^-9 + ...: each term alone is lost when the sum is rounded to BF16 on the way.
  std::vector<std::vector<uint16_t>> values;
  float sum = 0;
  for (int r = 0; r < world.size(); ++r) {
    const float value = r == 0 ? 1.0f : 0x1p-8f;
    sum += value;
    values.push_back(std::vector<uint16_t>(333, Bf16FromFloat(value)));
  }
  world.Run([&](int rank) {
    std::vector<uint16_t>& mine = values[static_cast<size_t>(rank)];
    world.rank(rank).AllReduceSum(Tensor(mine.data(), DType::kBF16, {3, 111}));
  });
  for (const auto& mine : values) {
    EXPECT_EQ(mine, std::vector<uint16_t>(333, Bf16FromFloat(sum)));
  }
}

TEST_P(CollectivesTest, FlagsAddAsIntegersAndNansReachAllRanks) {
  World world(GetParam(), 20'000);
  std::vector<int32_t> flags(static_cast<size_t>(world.size()), 0);
  std::vector<float> norms(static_cast<size_t>(world.size()), 1.0f);
  flags.back() = 1;
  norms.back() = NAN;
  world.Run([&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    world.rank(rank).AllReduceSum(Tensor(&flags[r], DType::kI32, {1}));
    world.rank(rank).AllReduceSum(Tensor(&norms[r], DType::kF32, {1}));
  });
  for (const int32_t flag : flags) EXPECT_EQ(flag, 1);
  for (const float norm : norms) EXPECT_TRUE(std::isnan(norm));
}

TEST_P(CollectivesTest, BroadcastAndGather) {
  World world(GetParam(), 20'000);
  const int root = world.size() - 1;
  std::vector<std::vector<uint8_t>> bytes(static_cast<size_t>(world.size()));
  std::vector<std::vector<int64_t>> gathered(bytes.size());
  std::vector<int64_t> expected;
  for (int r = 0; r < world.size(); ++r) {
    bytes[static_cast<size_t>(r)].assign(1001, static_cast<uint8_t>(r + 1));
    expected.push_back(r - (int64_t{1} << 60));
  }
  world.Run([&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    world.rank(rank).Broadcast(Tensor(bytes[r].data(), DType::kU8, {1001}), root);
    world.rank(rank).Broadcast(Tensor(bytes[r].data(), DType::kU8, {0}), 0);
    gathered[r] = world.rank(rank).AllGather(expected[r]);
    world.rank(rank).Barrier();
  });
  for (size_t r = 0; r < bytes.size(); ++r) {
    EXPECT_EQ(bytes[r], std::vector<uint8_t>(1001, static_cast<uint8_t>(root + 1)));
    EXPECT_EQ(gathered[r], expected);
    EXPECT_EQ(world.rank(static_cast<int>(r)).sequence(), 4u);
    EXPECT_EQ(world.rank(static_cast<int>(r)).rank(), static_cast<int>(r));
    EXPECT_EQ(world.rank(static_cast<int>(r)).world_size(), world.size());
  }
}

TEST_P(CollectivesTest, SilentPeerIsNamedAfterTheTimeout) {
  if (GetParam().world_size == 1) return;  // nobody to wait for
  World world(GetParam(), 300);
  const int silent = world.size() - 1;
  world.Run([&](int rank) {
    if (rank == silent) return;
    const Error error = ErrorOf([&] { world.rank(rank).Barrier(); });
    EXPECT_EQ(error.code(), Code::kCollective) << error.what();
    // Ranks that noticed later may name one that gave up because of the silent one.
    EXPECT_THAT(error.what(), HasSubstr("rank "));
    if (world.size() == 2) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    }
  });
}

TEST_P(CollectivesTest, DeadPeerFailsTheOthers) {
  if (GetParam().world_size == 1) return;
  World world(GetParam(), 20'000);
  world.Kill(world.size() - 1);
  world.Run([&](int rank) {
    if (rank == world.size() - 1) return;
    std::vector<float> mine(100'000, 1.0f);
    const Error error = ErrorOf(
        [&] { world.rank(rank).AllReduceSum(Tensor(mine.data(), DType::kF32, {100'000})); });
    EXPECT_EQ(error.code(), Code::kCollective) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("is gone"));
  });
}

TEST_P(CollectivesTest, RefusesWhatCannotBeSummed) {
  World world(GetParam(), 20'000);
  uint8_t byte = 0;
  const Error error = ErrorOf([&] { world.rank(0).AllReduceSum(Tensor(&byte, DType::kU8, {1})); });
  EXPECT_EQ(error.code(), Code::kInternal);
  EXPECT_THAT(error.what(), HasSubstr("U8"));
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return (info.param.kind == Kind::kLocal ? "Local" : "Gloo") +
         std::to_string(info.param.world_size);
}
std::vector<Case> Worlds() {
  std::vector<Case> worlds;
  for (const int size : {1, 2, 3, 5}) {
    worlds.push_back({Kind::kLocal, size});
    if (kHaveGloo || size == 1) worlds.push_back({Kind::kGloo, size});
  }
  return worlds;
}
INSTANTIATE_TEST_SUITE_P(Worlds, CollectivesTest, ::testing::ValuesIn(Worlds()), NameOf);

TEST(LocalCollectives, DifferentSizesFailAllRanks) {
  World world({Kind::kLocal, 2}, 20'000);
  world.Run([&](int rank) {
    std::vector<float> mine(static_cast<size_t>(10 + rank));
    const Error error = ErrorOf(
        [&] { world.rank(rank).AllReduceSum(Tensor(mine.data(), DType::kF32, {10 + rank})); });
    EXPECT_EQ(error.code(), Code::kCollective) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("different size"));
  });
}

Error ConnectError(const CollectiveOptions& options) {
  const TempDir dir;
  const std::unique_ptr<RendezvousStore> store = CreateFileStore(dir.file("store"));
  return ErrorOf([&] { CreateGlooCollectives(options, store.get()); });
}

TEST(GlooCollectives, MissingRankNamesItsKey) {
  CollectiveOptions options;
  options.world_size = 2;
  options.connect_timeout_ms = 100;
  const Error error = ConnectError(options);
  EXPECT_EQ(error.code(), kHaveGloo ? Code::kDeadlineExceeded : Code::kFailedPrecondition);
  EXPECT_THAT(error.what(), HasSubstr(kHaveGloo ? "'gloo/1'" : "libgloo-dev"));
}

TEST(GlooCollectives, BadAddressIsNamed) {
  CollectiveOptions options;
  options.world_size = 2;
  options.address = "192.0.2.1";  // TEST-NET: no interface here has it
  const Error error = ConnectError(options);
  EXPECT_EQ(error.code(), kHaveGloo ? Code::kCollective : Code::kFailedPrecondition);
  EXPECT_THAT(error.what(), HasSubstr(kHaveGloo ? "192.0.2.1" : "libgloo-dev"));
}

TEST(FileStore, KeysAndValuesMayBeAnyBytes) {
  const TempDir dir;
  const std::unique_ptr<RendezvousStore> store = CreateFileStore(dir.file("a/b"));
  const std::string value("\0\n\xff..", 5);
  store->Put("gloo/0/../x", value);
  store->Put("gloo/0", "other");
  const std::unique_ptr<RendezvousStore> second = CreateFileStore(dir.file("a/b"));
  EXPECT_EQ(second->Get("gloo/0/../x", 100), value);
  const Error error = ErrorOf([&] { second->Get("never", 20); });
  EXPECT_EQ(error.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(error.what(), HasSubstr("'never'"));
}

TEST(Shares, CoverEachElementOnce) {
  for (const int64_t numel : {0, 1, 5, 6, 7, 1000}) {
    int64_t next = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const Share share = ShareOf(numel, rank, 3);
      EXPECT_EQ(share.first, next);
      next += share.count;
    }
    EXPECT_EQ(next, numel);
  }
}

}  // namespace
}  // namespace coat
