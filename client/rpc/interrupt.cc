#include "client/rpc/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "configs/base/error.h"

namespace coat {

Interrupt::Interrupt(std::function<void()> on_signal) : on_signal_(std::move(on_signal)) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &wanted, &previous_);
  signals_ = signalfd(-1, &wanted, SFD_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || stop_ < 0) {
    throw Error(Code::kIo, std::string("signals cannot be watched: ") + std::strerror(errno));
  }
  thread_ = std::thread([this] { Wait(); });
}

Interrupt::~Interrupt() {
  const uint64_t one = 1;
  // An eventfd takes eight bytes at once; it cannot be full.
  [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof one);
  thread_.join();
  close(signals_);
  close(stop_);
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void Interrupt::Wait() {
  pollfd files[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                    {.fd = stop_, .events = POLLIN, .revents = 0}};
  while (poll(files, 2, -1) < 0 && errno == EINTR) {
  }
  if ((files[0].revents & POLLIN) == 0) return;
  signalfd_siginfo info;
  if (read(signals_, &info, sizeof info) == sizeof info) on_signal_();
}

}  // namespace coat
