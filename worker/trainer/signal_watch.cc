#include "worker/trainer/signal_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

namespace coat {

SignalWatch::SignalWatch(std::atomic<bool>* stop, std::function<void()> tick)
    : stop_(stop), tick_(std::move(tick)) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  signal_fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Run(); });
}

SignalWatch::~SignalWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof(one));
  thread_.join();
  ::close(signal_fd_);
  ::close(wake_fd_);
}

void SignalWatch::Run() {
  while (true) {
    pollfd fds[2] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    ::poll(fds, 2, 1000);
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    if (fds[0].revents != 0 && ::read(signal_fd_, &info, sizeof(info)) > 0) *stop_ = true;
    tick_();
  }
}

}  // namespace coat
