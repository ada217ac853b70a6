#include "worker/collectives/nccl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "configs/base/error.h"
#include "tests/support/gpu.h"
#include "worker/memory/device_memory.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

// What a rank has on its GPU.
class Rank {
 public:
  Rank(int rank, std::unique_ptr<Collectives> control)
      : device_("cuda:" + std::to_string(rank)),
        ops_(CreateOps(device_, 1)),
        collectives_(
            CreateNcclCollectives(std::move(control), ops_->stream(), Alone::kThroughNccl)) {}

  template <typename T>
  Tensor Put(DType dtype, const std::vector<T>& values) {
    const auto count = static_cast<int64_t>(values.size());
    memory_.push_back(ReserveDeviceMemory(device_, count * ElementBytes(dtype)));
    const Tensor x(memory_.back()->data(), dtype, {count});
    ops_->ToDevice(values.data(), x);
    return x;
  }
  template <typename T>
  std::vector<T> Get(const Tensor& x) {
    std::vector<T> values(static_cast<size_t>(x.numel()));
    ops_->ToHost(x, values.data());
    ops_->Synchronize();
    return values;
  }
  Collectives& collectives() { return *collectives_; }
  Ops& ops() { return *ops_; }

 private:
  const std::string device_;
  std::unique_ptr<Ops> ops_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::unique_ptr<Collectives> collectives_;
};

// Ranks as threads, one GPU each.
class NcclTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { COAT_NEEDS_GPUS(size()); }

  int size() const { return GetParam(); }

  void Run(const std::function<void(int, Rank&)>& body) {
    std::vector<std::unique_ptr<Collectives>> controls = CreateLocalCollectives(size(), 60'000);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          Rank own(rank, std::move(controls[static_cast<size_t>(rank)]));
          body(rank, own);
          own.collectives().Barrier();
        } catch (const Error& e) {
          ADD_FAILURE() << "rank " << rank << ": " << e.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, NcclTest, ::testing::Values(1, 2, 4),
                         [](const auto& info) { return std::to_string(info.param) + "ranks"; });

TEST(Nccl, AWorldOfOneTakesNoDetour) {
  std::unique_ptr<Collectives> control = std::move(CreateLocalCollectives(1, 1000)[0]);
  const Collectives* const before = control.get();
  EXPECT_EQ(CreateNcclCollectives(std::move(control), nullptr).get(), before);
}

// Small integers: every order of summation gives the same bits.
std::vector<float> Values(int rank, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = static_cast<float>((i * 31 + rank * 17) % 1009 - 500);
  }
  return values;
}

std::vector<float> Sum(int world_size, int64_t count) {
  std::vector<float> sum(static_cast<size_t>(count));
  for (int rank = 0; rank < world_size; ++rank) {
    const std::vector<float> values = Values(rank, count);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

TEST_P(NcclTest, AllReduceAdds) {
  Run([&](int rank, Rank& own) {
    for (const int64_t count : {1, 127, 1000, 300'007}) {
      const Tensor x = own.Put(DType::kF32, Values(rank, count));
      own.collectives().AllReduceSum(x);
      EXPECT_EQ(own.Get<float>(x), Sum(size(), count));
    }
    const Tensor bf16 = own.Put(DType::kBF16, std::vector<uint16_t>(333, Bf16FromFloat(1.5f)));
    own.collectives().AllReduceSum(bf16);
    const uint16_t sum = Bf16FromFloat(1.5f * static_cast<float>(size()));
    EXPECT_EQ(own.Get<uint16_t>(bf16), std::vector<uint16_t>(333, sum));
  });
}

TEST_P(NcclTest, FlagsAddAsIntegersAndNansReachAllRanks) {
  Run([&](int rank, Rank& own) {
    const bool last = rank == size() - 1;
    const Tensor flag = own.Put(DType::kI32, std::vector<int32_t>{last ? 1 : 0});
    const Tensor norm = own.Put(DType::kF32, std::vector<float>{last ? NAN : 1.0f});
    own.collectives().AllReduceSum(flag);
    own.collectives().AllReduceSum(norm);
    EXPECT_EQ(own.Get<int32_t>(flag)[0], 1);
    EXPECT_TRUE(std::isnan(own.Get<float>(norm)[0]));
  });
}

TEST_P(NcclTest, BroadcastAndGather) {
  Run([&](int rank, Rank& own) {
    const int root = size() - 1;
    const Tensor x =
        own.Put(DType::kU8, std::vector<uint8_t>(1001, static_cast<uint8_t>(rank + 1)));
    own.collectives().Broadcast(x, root);
    EXPECT_EQ(own.Get<uint8_t>(x), std::vector<uint8_t>(1001, static_cast<uint8_t>(root + 1)));
    const std::vector<int64_t> all = own.collectives().AllGather(10 + rank);
    for (int r = 0; r < size(); ++r) EXPECT_EQ(all[static_cast<size_t>(r)], 10 + r);
  });
}

TEST_P(NcclTest, StartedReducesFollowTheOperatorsAndComeBeforeTheNext) {
  Run([&](int rank, Rank& own) {
    constexpr int64_t kCount = 3'000'001;
    const std::vector<float> values = Values(rank, kCount);
    const Tensor source = own.Put(DType::kF32, values);
    const Tensor a = own.Put(DType::kF32, std::vector<float>(kCount, NAN));
    const Tensor b = own.Put(DType::kF32, std::vector<float>(kCount, NAN));
    const Tensor result = own.Put(DType::kF32, std::vector<float>(kCount, NAN));
    const std::vector<float> expected = Sum(size(), kCount);
    for (int repeat = 0; repeat < 5; ++repeat) {
      own.ops().Copy(source, a);
      own.collectives().StartAllReduceSum(a);
      own.ops().Copy(source, b);
      own.collectives().StartAllReduceSum(b);
      own.collectives().Finish();
      own.ops().Copy(b, result);
      EXPECT_EQ(own.Get<float>(a), expected);
      EXPECT_EQ(own.Get<float>(result), expected);
    }
    const ReduceTimes times = own.collectives().reduce_times();
    EXPECT_GT(times.busy_seconds, 0);
    EXPECT_GE(times.waited_seconds, 0);
  });
}

TEST_P(NcclTest, OtherCallsBetweenStartAndFinishAreRefused) {
  Run([&](int, Rank& own) {
    const Tensor x = own.Put(DType::kF32, std::vector<float>{1});
    own.collectives().StartAllReduceSum(x);
    EXPECT_THROW(own.collectives().AllReduceSum(x), Error);
    EXPECT_THROW(own.collectives().Barrier(), Error);
    own.collectives().Finish();
    EXPECT_EQ(own.Get<float>(x)[0], static_cast<float>(size()));
  });
}

}  // namespace
}  // namespace coat
