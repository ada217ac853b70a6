// What ranks of a gang do together. local: threads in one process (tests); gloo: CPU; nccl: GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/tensor/tensor.h"

namespace coat {

// Key/value exchange before the first collective. Thread-safe.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual void Put(const std::string& key, const std::string& value) = 0;
  // Waits for the key. Error(kDeadlineExceeded) naming the key.
  virtual std::string Get(const std::string& key, int timeout_ms) = 0;
};

// Of the sums between two calls of Finish. Their hidden share is 1 - waited_seconds / busy_seconds.
struct ReduceTimes {
  double busy_seconds = 0;    // while a sum ran, waiting for slower ranks included
  double waited_seconds = 0;  // while nothing but the sums was left to do
};

// Calls are made in the same order on all ranks, by one thread each. Any failure throws
// Error(kCollective) naming what is known of the peer; the object is then unusable.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // In place, summed over ranks; F32 (FP32 sums), BF16 (FP32 sums, rounded once) or I32.
  // Every rank gets bitwise the same result. The order of summation depends on world_size only.
  virtual void AllReduceSum(const Tensor& x) = 0;
  // As AllReduceSum, bit for bit, beside other work. `x` holds its values when the call is made (on
  // a GPU: in the order of the device's work), then nobody touches it before Finish; until that, no
  // other call may be made: Error(kInternal). A failure throws here or in Finish.
  virtual void StartAllReduceSum(const Tensor& x) = 0;
  // All sums that were started are in place; on a GPU in the order of the device's work, without
  // making the host wait.
  virtual void Finish() = 0;
  // Of the sums of the last Finish, before the next start; on a GPU it waits for them.
  virtual ReduceTimes reduce_times() const = 0;
  virtual void Broadcast(const Tensor& x, int root) = 0;
  virtual std::vector<int64_t> AllGather(int64_t value) = 0;
  virtual void Barrier() = 0;
  // Calls made so far: the rank that hangs is the one with the lowest number (PROTOCOLS.md 8).
  // Readable from any thread.
  virtual uint64_t sequence() const = 0;
};

// world_size objects for threads of one process; a rank that is destroyed fails the others.
std::vector<std::unique_ptr<Collectives>> CreateLocalCollectives(int world_size, int timeout_ms);

struct CollectiveOptions {
  int rank = 0;
  int world_size = 1;
  std::string address = "127.0.0.1";  // to bind and advertise
  int connect_timeout_ms = 120'000;
  int timeout_ms = 1'800'000;  // longer than the longest phase limit
};
// Gloo over TCP. world_size 1 takes no detour (no store, no sockets); otherwise SIGPIPE is ignored
// from now on, unless it has a handler.
std::unique_ptr<Collectives> CreateGlooCollectives(const CollectiveOptions& options,
                                                   RendezvousStore* store);

// Files in a directory that all ranks of one host see (coat-train --nproc).
std::unique_ptr<RendezvousStore> CreateFileStore(const std::string& dir);

}  // namespace coat
