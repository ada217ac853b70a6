// A thread that does one thing again and again.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace coat {

// Calls `work` every `interval_ms` until destroyed; `work` itself must end soon.
class Ticker {
 public:
  Ticker(int interval_ms, std::function<void()> work);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace coat
