// Threads of the CPU backend.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace coat {

// ParallelFor cuts [0, count) into chunks of `grain` (the last may be short), whatever the number
// of threads, and calls fn(begin, end) once for each. A function whose chunks write disjoint
// places therefore gives the same bits for any number of threads; partial results belong to chunk
// number begin / grain.
// Thread-compatible: one ParallelFor at a time; it returns when every chunk is done. The first
// exception of a chunk is thrown again to the caller.
class ThreadPool {
 public:
  using Body = std::function<void(int64_t begin, int64_t end)>;

  explicit ThreadPool(int threads);  // the caller is one of them
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  void ParallelFor(int64_t count, int64_t grain, const Body& fn);

 private:
  void WorkerMain();
  // Runs chunks until none is left; `lock` holds mutex_ on entry and on return.
  void RunChunks(std::unique_lock<std::mutex>& lock);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  // Guarded by mutex_: the running loop. Chunks are handed out in order.
  const Body* body_ = nullptr;
  int64_t count_ = 0, grain_ = 1, next_ = 0, unfinished_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
};

}  // namespace coat
