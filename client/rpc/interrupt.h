// Ctrl-C as a call of a function instead of the end of the program.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace coat {

// From construction to destruction SIGINT and SIGTERM call `on_signal` (once, on a thread of its
// own). Threads started meanwhile inherit the blocked signals. One at a time in a process.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> on_signal);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  void Wait();

  const std::function<void()> on_signal_;
  sigset_t previous_;
  int signals_ = -1;  // signalfd
  int stop_ = -1;     // eventfd
  std::thread thread_;
};

}  // namespace coat
