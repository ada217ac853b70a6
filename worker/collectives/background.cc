#include "worker/collectives/background.h"

#include <string>
#include <utility>

#include "configs/base/error.h"

namespace coat {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

BackgroundSums::~BackgroundSums() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundSums::CheckIdle(const char* call) const {
  Check(!open_, std::string(call) + ": sums were started and not finished");
}

void BackgroundSums::Start(const Tensor& x) {
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  open_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    waiting_.push_back(x);
  }
  changed_.notify_all();
}

void BackgroundSums::Finish() {
  if (!open_) return;
  open_ = false;
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (waiting_.empty() && !running_) || failure_ != nullptr; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  times_ = {std::exchange(busy_seconds_, 0.0), SecondsSince(start)};
}

void BackgroundSums::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const Tensor x = waiting_.front();
    waiting_.pop_front();
    running_ = true;
    lock.unlock();
    const Clock::time_point start = Clock::now();
    std::exception_ptr failure;
    try {
      sum_(x);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    busy_seconds_ += SecondsSince(start);
    running_ = false;
    failure_ = failure;
    changed_.notify_all();
    if (failure_ != nullptr) return;
  }
}

}  // namespace coat
