// Collectives over Gloo's TCP pairs. Only its point-to-point operations are used: its own
// all-reduce adds in an order that depends on the element's position, and rounds BF16 at each hop.
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "configs/base/error.h"
#include "worker/collectives/background.h"
#include "worker/collectives/reduce.h"
#include "worker/collectives/single.h"

namespace coat {
namespace {

using Milliseconds = std::chrono::milliseconds;
using BufferPtr = std::unique_ptr<gloo::transport::UnboundBuffer>;

// Hands Gloo's store calls to ours.
class StoreAdapter final : public gloo::rendezvous::Store {
 public:
  StoreAdapter(RendezvousStore* store, int timeout_ms) : store_(store), timeout_ms_(timeout_ms) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->Put(kPrefix + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_->Get(kPrefix + key, timeout_ms_);
    return std::vector<char>(value.begin(), value.end());
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) store_->Get(kPrefix + key, timeout_ms_);
  }
  void wait(const std::vector<std::string>& keys, const Milliseconds&) override { wait(keys); }

 private:
  static inline const std::string kPrefix = "gloo/";
  RendezvousStore* store_;
  const int timeout_ms_;
};

// Gloo writes to sockets without MSG_NOSIGNAL: a dead peer must be an Error, not the end of this
// process. A handler somebody has set stays.
void IgnoreBrokenPipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

class GlooCollectives final : public Collectives {
 public:
  GlooCollectives(const CollectiveOptions& options, RendezvousStore* store)
      : rank_(options.rank), world_size_(options.world_size), timeout_(options.timeout_ms) {
    staging_.resize(static_cast<size_t>(kBlockBytes * (world_size_ - 1)));
    received_.resize(static_cast<size_t>(world_size_));
    try {
      gloo::transport::tcp::attr attr;
      attr.hostname = options.address;
      std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
      context_ = std::make_shared<gloo::rendezvous::Context>(rank_, world_size_);
      context_->setTimeout(Milliseconds(options.connect_timeout_ms));
      StoreAdapter adapter(store, options.connect_timeout_ms);
      context_->connectFullMesh(adapter, device);
    } catch (const Error&) {
      throw;  // of the store: it names the key that is missing
    } catch (const std::exception& e) {
      throw Error(Code::kCollective, "rank " + std::to_string(rank_) +
                                         " cannot connect to its peers from address " +
                                         options.address + ": " + e.what());
    }
    CreateStagingBuffers();
  }

  // A sum that still runs would wait for its peers.
  ~GlooCollectives() override {
    const std::lock_guard lock(abort_mutex_);
    aborted_ = true;
    Abort(&received_);
    for (std::vector<BufferPtr>* buffers : in_use_) Abort(buffers);
  }
  GlooCollectives(const GlooCollectives&) = delete;
  GlooCollectives& operator=(const GlooCollectives&) = delete;

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
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
    CheckRank(root, world_size_);
    ++sequence_;
    if (x.bytes() == 0) return;
    std::vector<BufferPtr> views = Views(x);
    const size_t bytes = static_cast<size_t>(x.bytes());
    if (rank_ != root) {
      Receive(views, root, 0, bytes);
      WaitReceived(views, root);
      return;
    }
    for (int r = 0; r < world_size_; ++r) Send(views, r, 0, bytes);
    for (int r = 0; r < world_size_; ++r) WaitSent(views, r);
  }

  std::vector<int64_t> AllGather(int64_t value) override {
    background_.CheckIdle("AllGather");
    ++sequence_;
    std::vector<int64_t> values(static_cast<size_t>(world_size_));
    values[static_cast<size_t>(rank_)] = value;
    std::vector<BufferPtr> views = Views(Tensor(values.data(), DType::kU8, {world_size_ * 8}));
    for (int r = 0; r < world_size_; ++r) Receive(views, r, static_cast<size_t>(r) * 8, 8);
    for (int r = 0; r < world_size_; ++r) Send(views, r, static_cast<size_t>(rank_) * 8, 8);
    for (int r = 0; r < world_size_; ++r) WaitReceived(views, r);
    for (int r = 0; r < world_size_; ++r) WaitSent(views, r);
    return values;
  }

  void Barrier() override { AllGather(0); }

 private:
  static constexpr int64_t kBlockBytes = 256 * 1024;  // a round's part of a share

  struct Piece {
    size_t offset = 0;  // bytes in the tensor
    size_t bytes = 0;
  };

  // Buffers that the end of the object must not leave a thread waiting for.
  class Use {
   public:
    Use(GlooCollectives* owner, std::vector<BufferPtr>* buffers)
        : owner_(owner), buffers_(buffers) {
      const std::lock_guard lock(owner_->abort_mutex_);
      owner_->in_use_.insert(buffers_);
      if (owner_->aborted_) Abort(buffers_);
    }
    ~Use() {
      const std::lock_guard lock(owner_->abort_mutex_);
      owner_->in_use_.erase(buffers_);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    GlooCollectives* owner_;
    std::vector<BufferPtr>* buffers_;
  };

  // The wait that runs or comes next ends at once.
  static void Abort(std::vector<BufferPtr>* buffers) {
    for (const BufferPtr& buffer : *buffers) {
      if (buffer == nullptr) continue;
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

  // One buffer a peer over the same memory: Gloo allows one pending operation a buffer.
  std::vector<BufferPtr> Views(const Tensor& x) {
    std::vector<BufferPtr> views(static_cast<size_t>(world_size_));
    for (int r = 0; r < world_size_; ++r) {
      if (r == rank_) continue;
      views[static_cast<size_t>(r)] =
          context_->createUnboundBuffer(x.data, static_cast<size_t>(x.bytes()));
    }
    return views;
  }

  void CreateStagingBuffers() {
    char* next = staging_.data();
    for (int r = 0; r < world_size_; ++r) {
      if (r == rank_) continue;
      received_[static_cast<size_t>(r)] = context_->createUnboundBuffer(next, kBlockBytes);
      next += kBlockBytes;
    }
  }

  void Reduce(const Tensor& x) {
    CheckReducible(x);
    ++sequence_;
    const int64_t element = ElementBytes(x.dtype);
    const int64_t block = kBlockBytes / element;
    // Every rank walks through as many rounds as the largest share has blocks.
    const int64_t rounds = (ShareOf(x.numel(), 0, world_size_).count + block - 1) / block;
    if (rounds == 0) return;
    std::vector<BufferPtr> views = Views(x);
    const Use use(this, &views);
    for (int64_t round = 0; round < rounds; ++round) {
      const auto piece = [&](int rank) {
        const Share share = ShareOf(x.numel(), rank, world_size_);
        const int64_t done = std::min(round * block, share.count);
        return Piece{static_cast<size_t>((share.first + done) * element),
                     static_cast<size_t>(std::min(block, share.count - done) * element)};
      };
      ReduceRound(x, piece, &views);
    }
  }

  // Each rank sends every peer the peer's piece, adds what it got for its own piece in rank order,
  // and sends the sum to all.
  template <typename PieceOf>
  void ReduceRound(const Tensor& x, const PieceOf& piece_of, std::vector<BufferPtr>* views) {
    const Piece mine = piece_of(rank_);
    for (int r = 0; r < world_size_; ++r) Receive(received_, r, 0, mine.bytes);
    for (int r = 0; r < world_size_; ++r) Send(*views, r, piece_of(r).offset, piece_of(r).bytes);
    for (int r = 0; r < world_size_; ++r) {
      if (mine.bytes > 0) WaitReceived(received_, r);
    }
    for (int r = 0; r < world_size_; ++r) {
      if (piece_of(r).bytes > 0) WaitSent(*views, r);
    }
    if (mine.bytes > 0) {
      std::vector<const void*> parts(static_cast<size_t>(world_size_));
      char* own = x.as<char>() + mine.offset;
      for (int r = 0; r < world_size_; ++r) {
        const size_t i = static_cast<size_t>(r);
        parts[i] = r == rank_ ? own : received_[i]->ptr;
      }
      SumInRankOrder(x.dtype, parts, static_cast<int64_t>(mine.bytes) / ElementBytes(x.dtype), own);
    }
    for (int r = 0; r < world_size_; ++r) Receive(*views, r, piece_of(r).offset, piece_of(r).bytes);
    for (int r = 0; r < world_size_; ++r) Send(*views, r, mine.offset, mine.bytes);
    for (int r = 0; r < world_size_; ++r) {
      if (piece_of(r).bytes > 0) WaitReceived(*views, r);
    }
    for (int r = 0; r < world_size_; ++r) {
      if (mine.bytes > 0) WaitSent(*views, r);
    }
  }

  // Empty pieces and the rank itself take no part.
  void Send(std::vector<BufferPtr>& buffers, int peer, size_t offset, size_t bytes) {
    if (peer == rank_ || bytes == 0) return;
    Guard(peer, [&] {
      buffers[static_cast<size_t>(peer)]->send(peer, sequence_, offset, bytes);
      return true;
    });
  }
  void Receive(std::vector<BufferPtr>& buffers, int peer, size_t offset, size_t bytes) {
    if (peer == rank_ || bytes == 0) return;
    Guard(peer, [&] {
      buffers[static_cast<size_t>(peer)]->recv(peer, sequence_, offset, bytes);
      return true;
    });
  }
  void WaitSent(std::vector<BufferPtr>& buffers, int peer) {
    if (peer == rank_) return;
    Guard(peer, [&] { return buffers[static_cast<size_t>(peer)]->waitSend(timeout_); });
  }
  void WaitReceived(std::vector<BufferPtr>& buffers, int peer) {
    if (peer == rank_) return;
    Guard(peer, [&] { return buffers[static_cast<size_t>(peer)]->waitRecv(timeout_); });
  }

  template <typename Operation>
  void Guard(int peer, const Operation& operation) {
    std::string why = "aborted";
    try {
      if (operation()) return;
    } catch (const std::exception& e) {
      why = e.what();
    }
    throw Error(Code::kCollective, "rank " + std::to_string(rank_) + ", collective call " +
                                       std::to_string(sequence_) + ": rank " +
                                       std::to_string(peer) + " is gone or silent: " + why);
  }

  const int rank_;
  const int world_size_;
  const Milliseconds timeout_;
  std::atomic<uint64_t> sequence_{0};
  std::vector<char> staging_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<BufferPtr> received_;  // one a peer, each over its part of staging_
  std::mutex abort_mutex_;
  std::set<std::vector<BufferPtr>*> in_use_;                           // by abort_mutex_
  bool aborted_ = false;                                               // by abort_mutex_
  BackgroundSums background_{[this](const Tensor& x) { Reduce(x); }};  // ends first
};

}  // namespace

std::unique_ptr<Collectives> CreateGlooCollectives(const CollectiveOptions& options,
                                                   RendezvousStore* store) {
  CheckRank(options.rank, options.world_size);
  if (options.world_size == 1) return CreateSingleRankCollectives();
  IgnoreBrokenPipes();
  Check(store != nullptr, "more than one rank needs a rendezvous store");
  return std::make_unique<GlooCollectives>(options, store);
}

}  // namespace coat
