#include "worker/ops/cpu/thread_pool.h"

#include <algorithm>

#include "configs/base/error.h"

namespace coat {

ThreadPool::ThreadPool(int threads) {
  Check(threads >= 1, "a thread pool needs one thread or more");
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { WorkerMain(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t count, int64_t grain, const Body& fn) {
  grain = std::max<int64_t>(grain, 1);
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      fn(begin, std::min(begin + grain, count));
    }
    return;
  }
  std::unique_lock lock(mutex_);
  body_ = &fn;
  count_ = count;
  grain_ = grain;
  next_ = 0;
  unfinished_ = (count + grain - 1) / grain;
  error_ = nullptr;
  wake_.notify_all();
  RunChunks(lock);
  done_.wait(lock, [this] { return unfinished_ == 0; });
  body_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::WorkerMain() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || (body_ != nullptr && next_ < count_); });
    if (stop_) return;
    RunChunks(lock);
  }
}

void ThreadPool::RunChunks(std::unique_lock<std::mutex>& lock) {
  while (body_ != nullptr && next_ < count_) {
    const Body& body = *body_;
    const int64_t begin = next_;
    const int64_t end = std::min(begin + grain_, count_);
    next_ = end;
    lock.unlock();
    std::exception_ptr error;
    try {
      body(begin, end);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) error_ = error;
    if (--unfinished_ == 0) done_.notify_one();
  }
}

}  // namespace coat
