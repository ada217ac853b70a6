#include "worker/supervisor/ticker.h"

#include <chrono>
#include <utility>

namespace coat {

Ticker::Ticker(int interval_ms, std::function<void()> work) {
  thread_ = std::thread([this, interval_ms, work = std::move(work)] {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      lock.unlock();
      work();
      lock.lock();
      changed_.wait_for(lock, std::chrono::milliseconds(interval_ms), [this] { return stopped_; });
    }
  });
}

Ticker::~Ticker() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace coat
