// A thread that repeats a task: when signalled, and at least every period.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace coat {

struct LoopTiming {
  int64_t period_ms = 1000;
  int64_t rest_ms = 0;  // least pause after a run, however often it is signalled
};

class Loop {
 public:
  Loop(LoopTiming timing, std::function<void()> task);
  ~Loop();  // lets a running task finish
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  void Signal();

 private:
  void Run();

  const LoopTiming timing_;
  const std::function<void()> task_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool signalled_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace coat
