#include "server/loops/loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace coat {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Loop::Loop(LoopTiming timing, std::function<void()> task)
    : timing_(timing), task_(std::move(task)), thread_([this] { Run(); }) {}

Loop::~Loop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Loop::Signal() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    signalled_ = true;
  }
  wake_.notify_one();
}

void Loop::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, milliseconds(timing_.period_ms),
                   [this] { return signalled_ || stopping_; });
    if (stopping_) return;
    signalled_ = false;
    lock.unlock();
    const auto started = steady_clock::now();
    task_();
    // A task that takes long gets as long a rest, so that it never takes the machine for itself.
    const auto rest = std::max<steady_clock::duration>(
        milliseconds(timing_.rest_ms),
        timing_.rest_ms > 0 ? steady_clock::now() - started : steady_clock::duration::zero());
    lock.lock();
    wake_.wait_for(lock, rest, [this] { return stopping_; });
  }
}

}  // namespace coat
