#include "worker/collectives/single.h"

#include "configs/base/error.h"
#include "worker/collectives/reduce.h"

namespace coat {
namespace {

class SingleRank final : public Collectives {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  void AllReduceSum(const Tensor& x) override {
    CheckReducible(x);
    ++sequence_;
  }
  void StartAllReduceSum(const Tensor& x) override { AllReduceSum(x); }
  void Finish() override {}
  ReduceTimes reduce_times() const override { return {}; }
  void Broadcast(const Tensor&, int root) override {
    CheckRank(root, 1);
    ++sequence_;
  }
  std::vector<int64_t> AllGather(int64_t value) override {
    ++sequence_;
    return {value};
  }
  void Barrier() override { ++sequence_; }
  uint64_t sequence() const override { return sequence_; }

 private:
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace

std::unique_ptr<Collectives> CreateSingleRankCollectives() {
  return std::make_unique<SingleRank>();
}

void CheckRank(int rank, int world_size) {
  Check(rank >= 0 && rank < world_size, "rank " + std::to_string(rank) + " of a world of " +
                                            std::to_string(world_size) + " does not exist");
}

}  // namespace coat
