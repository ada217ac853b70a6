// SIGTERM as a request to stop, and a steady tick.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace coat {

// A thread that sets `stop` when SIGTERM arrives and calls `tick` once a second. SIGTERM must be
// blocked in all threads (RunRankParent starts a rank so).
class SignalWatch {
 public:
  SignalWatch(std::atomic<bool>* stop, std::function<void()> tick);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void Run();

  std::atomic<bool>* const stop_;
  const std::function<void()> tick_;
  int signal_fd_ = -1;
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace coat
