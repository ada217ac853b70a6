#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "worker/trainer/rank_parent.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using SteadyClock = std::chrono::steady_clock;

Status SystemError(const std::string& what, int error) {
  return Status(Code::kInternal, what + ": " + std::strerror(error));
}

// Everything the child needs, made before the fork: afterwards only async-signal-safe calls.
struct Child {
  const char* path = nullptr;
  char* const* argv = nullptr;
  int null_fd = -1;
  int output_fd = -1;
  int lock_fd = -1;
  int report_fd = -1;
};

void Report(const Child& child) {
  const int error = errno;
  ::flock(child.lock_fd, LOCK_UN);  // not alive from now on, however long the exit takes
  [[maybe_unused]] const ssize_t n = ::write(child.report_fd, &error, sizeof(error));
  ::_exit(127);
}

[[noreturn]] void RunChild(const Child& child) {
  ::setsid();
  const pid_t pid = ::fork();
  if (pid < 0) Report(child);
  if (pid > 0) ::_exit(0);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(child.null_fd, 0);
  ::dup2(child.output_fd, 1);
  ::dup2(child.output_fd, 2);
  ::dup2(child.lock_fd, kInheritedLockFd);
  ::close_range(kInheritedLockFd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execv(child.path, child.argv);
  Report(child);
  ::_exit(127);
}

// A descriptor above those the child fills, closed on exec.
int Lift(int fd) {
  const int lifted = ::fcntl(fd, F_DUPFD_CLOEXEC, 16);
  ::close(fd);
  return lifted;
}

Status ForkAndExec(Child child) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  child.report_fd = Lift(report[1]);
  const pid_t pid = ::fork();
  if (pid == 0) RunChild(child);
  const int fork_error = errno;
  ::close(child.report_fd);
  int error = 0;
  ssize_t n = 0;
  if (pid > 0) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    while ((n = ::read(report[0], &error, sizeof(error))) < 0 && errno == EINTR) {
    }
  }
  ::close(report[0]);
  if (pid < 0) return SystemError("fork", fork_error);
  if (n != sizeof(error)) return Status();
  return Status(error == ENOENT || error == EACCES ? Code::kNotFound : Code::kInternal,
                std::string("cannot execute ") + child.path + ": " + std::strerror(error));
}

// Parent of a process by /proc/<pid>/stat; 0 when there is none.
pid_t ParentOf(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  return static_cast<pid_t>(std::atol(text.c_str() + name_end + 4));
}

}  // namespace

Result<int> LockAlive(const std::string& dir) {
  const std::string path = dir + "/" + kAliveFile;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Status(Code::kIo, "cannot open " + path + ": " + std::strerror(errno));
  // RankIsAlive of another process holds a shared lock for an instant.
  const auto deadline = SteadyClock::now() + std::chrono::milliseconds(300);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || SteadyClock::now() > deadline) {
      ::close(fd);
      return Status(Code::kFailedPrecondition, path + " is locked: the rank is alive");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (ReadExit(dir).ok()) {
    ::close(fd);
    return Status(Code::kFailedPrecondition, dir + " belongs to a rank that has ended");
  }
  return fd;
}

bool RankIsAlive(const std::string& dir) {
  const int fd = ::open((dir + "/" + kAliveFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

Result<RankPids> ReadRankPids(const std::string& dir) {
  if (!RankIsAlive(dir)) return Status(Code::kNotFound, dir + ": the rank is not alive");
  RankPids pids;
  std::ifstream in(dir + "/" + kAliveFile);
  in >> pids.parent >> pids.rank;
  return pids;
}

Status SpawnRank(const std::string& dir, const std::string& trainer_path) {
  ASSIGN_OR_RETURN(const int lock, LockAlive(dir));
  Child child;
  child.lock_fd = Lift(lock);
  child.null_fd = Lift(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::string output = dir + "/" + kOutputFile;
  child.output_fd = Lift(::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  std::string program = trainer_path;
  std::string flag = "--rank-dir";
  std::string argument = dir;
  char* const argv[] = {program.data(), flag.data(), argument.data(), nullptr};
  child.path = trainer_path.c_str();
  child.argv = argv;
  const Status status =
      child.output_fd < 0 ? Status(Code::kIo, "cannot open " + output) : ForkAndExec(child);
  ::close(child.lock_fd);
  ::close(child.null_fd);
  ::close(child.output_fd);
  return status;
}

Status SignalRank(const std::string& dir, int signal) {
  const auto deadline = SteadyClock::now() + std::chrono::seconds(5);
  while (true) {
    ASSIGN_OR_RETURN(const RankPids pids, ReadRankPids(dir));
    if (pids.rank > 0) {
      // Once the parent has reaped the rank its number may belong to another process.
      if (ParentOf(pids.rank) == pids.parent && ::kill(pids.rank, signal) == 0) return Status();
      return Status(Code::kNotFound, dir + ": the rank has just ended");
    }
    if (SteadyClock::now() > deadline) {
      return Status(Code::kUnavailable, dir + ": the rank was not forked within 5 s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace coat
