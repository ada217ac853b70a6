// coat-worker: offers this host's devices to a coordinator and runs the ranks it sends.
// SIGTERM and SIGINT drain it (ranks checkpoint and stop), SIGUSR2 hands over (ranks stay).
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <iostream>

#include "worker/supervisor/daemon.h"
#include "worker/supervisor/flags.h"
#include "worker/supervisor/worker_config.h"

namespace coat {
namespace {

constexpr int kUsage = 2;
constexpr long kTickNs = 100'000'000;

sigset_t BlockSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR2}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Returns when the daemon has drained or hands over.
void Serve(const sigset_t& signals, Daemon* daemon) {
  bool draining = false;
  while (!draining || !daemon->Drained()) {
    const timespec tick{0, kTickNs};
    const int number = sigtimedwait(&signals, nullptr, &tick);
    if (number == SIGUSR2) {
      spdlog::info("handing over: ranks stay");
      return;
    }
    if (number > 0 && !draining) {
      spdlog::info("draining: ranks checkpoint and stop");
      daemon->BeginDrain();
      draining = true;
    }
  }
  spdlog::info("drained");
}

std::string ProgramPath(const char* argv0) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? argv0 : path.string();
}

int Main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("coat-worker"));
  auto flags = ParseWorkerFlags(argc, argv);
  if (flags.ok() && flags->done) return 0;
  const Status status =
      flags.ok() ? ResolveWorkerConfig(ProgramPath(argv[0]), &flags->config) : flags.status();
  if (!status.ok()) {
    std::cerr << "coat-worker: " << status.message() << "\n";
    return kUsage;
  }
  const sigset_t signals = BlockSignals();
  RaiseDescriptorLimit();
  const auto daemon = Daemon::Start(flags->config);
  if (!daemon.ok()) {
    std::cerr << "coat-worker: " << daemon.status().message() << "\n";
    return 1;
  }
  std::cout << daemon.value()->Describe() << std::endl;
  Serve(signals, daemon.value().get());
  return 0;
}

}  // namespace
}  // namespace coat

int main(int argc, char** argv) { return coat::Main(argc, argv); }
