#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "configs/base/error.h"
#include "worker/collectives/background.h"
#include "worker/collectives/collectives.h"
#include "worker/collectives/reduce.h"
#include "worker/collectives/single.h"

namespace coat {
namespace {

// What the threads share. A call has two meetings: all arguments are published before the first,
// nobody returns before the second.
class Meeting {
 public:
  Meeting(int world_size, int timeout_ms)
      : world_size_(world_size),
        timeout_(timeout_ms),
        tensors_(static_cast<size_t>(world_size)),
        values_(static_cast<size_t>(world_size)) {}

  int world_size() const { return world_size_; }
  Tensor& tensor(int rank) { return tensors_[static_cast<size_t>(rank)]; }
  int64_t& value(int rank) { return values_[static_cast<size_t>(rank)]; }
  const std::vector<int64_t>& values() const { return values_; }

  void Meet(int rank) {
    std::unique_lock lock(mutex_);
    ThrowIfFailed();
    arrived_ |= uint64_t{1} << rank;
    if (++count_ == world_size_) {
      count_ = 0;
      arrived_ = 0;
      ++generation_;
      condition_.notify_all();
      return;
    }
    const uint64_t mine = generation_;
    const bool done = condition_.wait_for(lock, timeout_,
                                          [&] { return generation_ != mine || !failure_.empty(); });
    if (generation_ != mine) return;
    if (!done) {
      SetFailure("rank " + std::to_string(FirstMissing()) + " did not arrive within " +
                 std::to_string(timeout_.count()) + " ms");
    }
    ThrowIfFailed();
  }

  void Fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    SetFailure(why);
  }

 private:
  void SetFailure(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    condition_.notify_all();
  }
  void ThrowIfFailed() const {
    if (!failure_.empty()) throw Error(Code::kCollective, "collective call failed: " + failure_);
  }
  int FirstMissing() const {
    int rank = 0;
    while ((arrived_ >> rank & 1) != 0) ++rank;
    return rank;
  }

  const int world_size_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable condition_;
  int count_ = 0;
  uint64_t arrived_ = 0;
  uint64_t generation_ = 0;
  std::string failure_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> values_;
};

class LocalCollectives final : public Collectives {
 public:
  LocalCollectives(int rank, std::shared_ptr<Meeting> meeting)
      : rank_(rank), meeting_(std::move(meeting)) {}
  ~LocalCollectives() override { meeting_->Fail("rank " + std::to_string(rank_) + " is gone"); }

  int rank() const override { return rank_; }
  int world_size() const override { return meeting_->world_size(); }
  uint64_t sequence() const override { return sequence_; }

  void AllReduceSum(const Tensor& x) override {
    background_.CheckIdle("AllReduceSum");
    Reduce(x);
  }
  void StartAllReduceSum(const Tensor& x) override {
    CheckReducible(x);
    background_.Start(x);
  }
  void Finish() override { background_.Finish(); }
  ReduceTimes reduce_times() const override { return background_.times(); }

  void Broadcast(const Tensor& x, int root) override {
    background_.CheckIdle("Broadcast");
    CheckRank(root, world_size());
    Publish(x);
    if (rank_ != root && x.bytes() > 0) {
      std::memcpy(x.data, Bytes(root), static_cast<size_t>(x.bytes()));
    }
    meeting_->Meet(rank_);
  }

  std::vector<int64_t> AllGather(int64_t value) override {
    background_.CheckIdle("AllGather");
    ++sequence_;
    meeting_->value(rank_) = value;
    meeting_->Meet(rank_);
    std::vector<int64_t> values = meeting_->values();
    meeting_->Meet(rank_);
    return values;
  }

  void Barrier() override {
    background_.CheckIdle("Barrier");
    ++sequence_;
    meeting_->Meet(rank_);
  }

 private:
  void Reduce(const Tensor& x) {
    CheckReducible(x);
    Publish(x);
    std::vector<const void*> parts;
    const Share share = ShareOf(x.numel(), rank_, world_size());
    const int64_t first_byte = share.first * ElementBytes(x.dtype);
    for (int r = 0; r < world_size(); ++r) parts.push_back(Bytes(r) + first_byte);
    if (share.count > 0) {
      SumInRankOrder(x.dtype, parts, share.count, Bytes(rank_) + first_byte);
      const size_t bytes = static_cast<size_t>(share.count * ElementBytes(x.dtype));
      for (int r = 0; r < world_size(); ++r) {
        if (r != rank_)
          std::memcpy(Bytes(r) + first_byte, parts[static_cast<size_t>(rank_)], bytes);
      }
    }
    meeting_->Meet(rank_);
  }

  char* Bytes(int rank) { return meeting_->tensor(rank).as<char>(); }

  void Publish(const Tensor& x) {
    ++sequence_;
    meeting_->tensor(rank_) = x;
    meeting_->Meet(rank_);
    for (int r = 0; r < world_size(); ++r) {
      const Tensor& other = meeting_->tensor(r);
      if (other.numel() != x.numel() || other.dtype != x.dtype) {
        const std::string why = "ranks " + std::to_string(rank_) + " and " + std::to_string(r) +
                                " passed tensors of different size or type";
        meeting_->Fail(why);
        throw Error(Code::kCollective, "collective call failed: " + why);
      }
    }
  }

  const int rank_;
  std::shared_ptr<Meeting> meeting_;
  std::atomic<uint64_t> sequence_{0};
  BackgroundSums background_{[this](const Tensor& x) { Reduce(x); }};  // ends first
};

}  // namespace

std::vector<std::unique_ptr<Collectives>> CreateLocalCollectives(int world_size, int timeout_ms) {
  Check(world_size >= 1 && world_size <= 64, "local collectives are for 1 to 64 threads");
  const auto meeting = std::make_shared<Meeting>(world_size, timeout_ms);
  std::vector<std::unique_ptr<Collectives>> all;
  for (int rank = 0; rank < world_size; ++rank) {
    all.push_back(std::make_unique<LocalCollectives>(rank, meeting));
  }
  return all;
}

}  // namespace coat
