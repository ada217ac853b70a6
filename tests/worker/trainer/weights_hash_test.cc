#include "worker/trainer/weights_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "worker/checkpoint/sha256.h"
#include "worker/ops/cpu/cpu_ops.h"

namespace coat {
namespace {

// Device memory is the host's, and a copy arrives no earlier than it must: at Synchronize.
class LateOps final : public CpuOps {
 public:
  LateOps() : CpuOps(1) {}
  DeviceType device() const override { return DeviceType::kCuda; }
  void ToHost(const Tensor& from, void* host) override { copies_.push_back({from, host}); }
  void Synchronize() override {
    for (const auto& [from, host] : copies_) {
      std::memcpy(host, from.data, static_cast<size_t>(from.bytes()));
    }
    copies_.clear();
  }

 private:
  std::deque<std::pair<Tensor, void*>> copies_;
};

class WeightsHashTest : public ::testing::Test {
 protected:
  WeightsHashTest() {
    Add("first", kHashChunkBytes * 3 + 8);  // three chunks and a short one
    Add("second", 12);
    Add("third", kHashChunkBytes);
  }
  void Add(const std::string& name, int64_t bytes) {
    std::vector<uint32_t>& words = memory_.emplace_back(static_cast<size_t>(bytes / 4));
    uint32_t x = static_cast<uint32_t>(memory_.size());
    for (uint32_t& word : words) word = x = x * 1664525u + 1013904223u;
    Parameter p;
    p.name = name;
    p.master = Tensor(words.data(), DType::kF32, {bytes / 4});
    parameters_.push_back(p);
  }
  std::string ByDefinition() const {
    std::string text;
    for (const Parameter& p : parameters_) {
      text += p.name + '\0';
      for (int64_t begin = 0; begin < p.master.bytes(); begin += kHashChunkBytes) {
        const int64_t size = std::min(kHashChunkBytes, p.master.bytes() - begin);
        text += Sha256Hex({p.master.as<char>() + begin, static_cast<size_t>(size)});
      }
    }
    return Sha256Hex(text);
  }

  std::deque<std::vector<uint32_t>> memory_;
  std::vector<Parameter> parameters_;
};

TEST_F(WeightsHashTest, IsTheSameForAnyNumberOfThreadsAndAnyDevice) {
  const std::string expected = ByDefinition();
  CpuOps host(1);
  LateOps device;
  for (const int threads : {1, 2, 3, 8}) {
    EXPECT_EQ(WeightsHash(parameters_, &host, threads), expected) << threads;
    EXPECT_EQ(WeightsHash(parameters_, &device, threads), expected) << threads;
  }
}

TEST_F(WeightsHashTest, NoticesEveryBitAndName) {
  CpuOps ops(1);
  const std::string before = WeightsHash(parameters_, &ops, 2);
  memory_[0].back() ^= 1;
  EXPECT_NE(WeightsHash(parameters_, &ops, 2), before);
  memory_[0].back() ^= 1;
  EXPECT_EQ(WeightsHash(parameters_, &ops, 2), before);
  parameters_[1].name = "seconb";
  EXPECT_NE(WeightsHash(parameters_, &ops, 2), before);
}

}  // namespace
}  // namespace coat
