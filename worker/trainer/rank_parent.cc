#include "worker/trainer/rank_parent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::RankExit;
using coatrack::v1::Reason;

// The lock SpawnRank took before the exec, or one of our own when started by hand.
Result<int> AdoptOrLock(const std::string& dir) {
  struct stat inherited {};
  struct stat file {};
  if (::fstat(kInheritedLockFd, &inherited) == 0 &&
      ::stat((dir + "/" + kAliveFile).c_str(), &file) == 0 && inherited.st_ino == file.st_ino &&
      inherited.st_dev == file.st_dev) {
    ::fcntl(kInheritedLockFd, F_SETFD, FD_CLOEXEC);
    return kInheritedLockFd;
  }
  return LockAlive(dir);
}

// "<name> <count>" lines of memory.events, memory.oom_control or /proc/vmstat; -1: not there.
int64_t CounterIn(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  std::string key;
  int64_t value = 0;
  while (in >> key >> value) {
    if (key == name) return value;
  }
  return -1;
}

// How often the kernel has killed for lack of memory: in this process's control group where that
// is counted, else on the whole machine.
int64_t OomKills() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t path = line.find(':', line.find(':') + 1);
    if (path == std::string::npos) continue;
    const std::string below = line.substr(path + 1) == "/" ? "" : line.substr(path + 1);
    int64_t count = -1;
    if (line.rfind("0::", 0) == 0) {
      count = CounterIn("/sys/fs/cgroup" + below + "/memory.events", "oom_kill");
    } else if (line.find(":memory:") != std::string::npos) {
      count = CounterIn("/sys/fs/cgroup/memory" + below + "/memory.oom_control", "oom_kill");
    }
    if (count >= 0) return count;
  }
  return CounterIn("/proc/vmstat", "oom_kill");
}

void WritePids(int lock_fd, pid_t rank) {
  const std::string text = std::to_string(::getpid()) + " " + std::to_string(rank) + "\n";
  [[maybe_unused]] const ssize_t n = ::pwrite(lock_fd, text.data(), text.size(), 0);
}

// The rank's side of the fork.
[[noreturn]] void BecomeRank(int lock_fd, pid_t parent, const std::function<int()>& rank_main) {
  ::close(lock_fd);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the line above
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  // When memory runs out the kernel should take the rank, not its parent or the daemon.
  std::ofstream("/proc/self/oom_score_adj") << 500;
  int status = 1;
  try {
    status = rank_main();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(status);
}

// Signals meant for the rank arrive at its own process; this one outlives all but SIGKILL.
sigset_t BlockSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&set, signal);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return set;
}

Status TrimStreams(const std::string& dir) {
  RETURN_IF_ERROR(TrimHead(dir + "/" + kRecordsFile, kRecordsLimitBytes));
  return TrimHead(dir + "/" + kOutputFile, kOutputLimitBytes);
}

int WaitForRank(const std::string& dir, pid_t rank, const sigset_t& signals) {
  int status = 0;
  bool can_trim = true;
  while (true) {
    const pid_t done = ::waitpid(rank, &status, WNOHANG);
    if (done == rank) return status;
    const timespec second{1, 0};
    ::sigtimedwait(&signals, nullptr, &second);
    const Status trimmed = can_trim ? TrimStreams(dir) : Status();
    if (!trimmed.ok()) {
      can_trim = false;  // say it once: the line below goes to output.log itself
      std::fprintf(stderr, "%s\n", trimmed.message().c_str());
    }
  }
}

int64_t LastRecordedStep(const std::string& dir) {
  struct stat info {};
  if (::stat((dir + "/" + kRecordsFile).c_str(), &info) != 0) return 0;
  constexpr int64_t kTail = 256 << 10;
  int64_t offset = std::max<int64_t>(0, info.st_size - kTail);
  if (offset > 0) {  // begin at the line after the cut
    std::ifstream in(dir + "/" + kRecordsFile, std::ios::binary);
    in.seekg(offset);
    std::string rest;
    std::getline(in, rest);
    offset += static_cast<int64_t>(rest.size()) + 1;
  }
  const Result<RecordChunk> chunk = ReadRecords(dir, offset, kTail);
  return chunk.ok() && !chunk->records.empty() ? chunk->records.back().step() : 0;
}

RankExit DescribeExit(const std::string& dir, int status, bool oom_counted) {
  const Result<RankExit> result = ReadResult(dir);
  RankExit exit = result.ok() ? *result : RankExit();
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    exit.set_exit_status(-1);
    exit.set_signal(signal);
    exit.set_host_oom(signal == SIGKILL && oom_counted);
    exit.set_reason(ReasonOfSignal(signal, exit.host_oom()));
    std::string message = std::string("the rank was ended by signal ") + std::to_string(signal) +
                          " (" + strsignal(signal) + ")";
    if (exit.host_oom()) {
      message +=
          ": the host ran out of memory; use a smaller train.micro_batch, fewer ranks on "
          "this host, or a host with more memory";
    }
    exit.set_message(message);
  } else {
    exit.set_exit_status(WEXITSTATUS(status));
    if (!result.ok()) {
      exit.set_reason(Reason::REASON_INTERNAL);
      exit.set_message("the rank exited with status " + std::to_string(WEXITSTATUS(status)) +
                       " and left no result; see its output");
    }
  }
  if (exit.last_step() == 0) exit.set_last_step(LastRecordedStep(dir));
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  exit.mutable_time()->set_seconds(now.tv_sec);
  exit.mutable_time()->set_nanos(static_cast<int32_t>(now.tv_nsec));
  return exit;
}

}  // namespace

Reason ReasonOfSignal(int signal, bool host_oom) {
  if (host_oom) return Reason::REASON_HOST_OOM;
  switch (signal) {
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS: return Reason::REASON_CRASHED;
    default: return Reason::REASON_KILLED;
  }
}

Result<int> RunRankParent(const std::string& dir, const std::function<int()>& rank_main) {
  ASSIGN_OR_RETURN(const int lock, AdoptOrLock(dir));
  const sigset_t signals = BlockSignals();
  const int64_t kills_before = OomKills();
  const pid_t self = ::getpid();
  WritePids(lock, 0);
  std::fflush(nullptr);
  const pid_t rank = ::fork();
  if (rank < 0) return Status(Code::kInternal, std::string("fork: ") + std::strerror(errno));
  if (rank == 0) BecomeRank(lock, self, rank_main);
  WritePids(lock, rank);
  const int status = WaitForRank(dir, rank, signals);
  RETURN_IF_ERROR(WriteExit(dir, DescribeExit(dir, status, OomKills() > kills_before)));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace coat
