// Sums over ranks beside the work of the thread that asks for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "worker/collectives/collectives.h"

namespace coat {

// Runs blocking sums one after another on a thread of its own, which begins with the first one.
// Called by one thread.
class BackgroundSums {
 public:
  using Sum = std::function<void(const Tensor&)>;
  explicit BackgroundSums(Sum sum) : sum_(std::move(sum)) {}
  // Drops what has not begun and waits for the sum that runs: its owner makes that one fail first.
  ~BackgroundSums();
  BackgroundSums(const BackgroundSums&) = delete;
  BackgroundSums& operator=(const BackgroundSums&) = delete;

  void Start(const Tensor& x);
  // Waits for all sums; throws what the first one that failed threw. None begins after a failure.
  void Finish();
  // Error(kInternal) naming `call` when sums were started and not finished.
  void CheckIdle(const char* call) const;
  ReduceTimes times() const { return times_; }  // of the sums of the last Finish

 private:
  void Work();

  const Sum sum_;
  bool open_ = false;  // something was started since the last Finish
  ReduceTimes times_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Tensor> waiting_;
  bool running_ = false;
  bool stop_ = false;
  std::exception_ptr failure_;
  double busy_seconds_ = 0;
  std::thread thread_;
};

}  // namespace coat
