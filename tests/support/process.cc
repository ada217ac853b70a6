#include "tests/support/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace coat::testing {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

std::runtime_error SystemError(const std::string& what, int error) {
  return std::runtime_error(what + ": " + std::strerror(error));
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::vector<std::string>& added) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  environment.insert(environment.end(), added.begin(), added.end());
  return environment;
}

int StatusOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// stdin, stdout and stderr of a child, and the directory it starts in.
pid_t Spawn(std::vector<std::string> argv, const ProcessOptions& options, const std::string& in,
            const std::string& out, const std::string& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), flags, 0644);
  if (err == out) {
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
  } else {
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), flags, 0644);
  }
  if (!options.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.directory.c_str());
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<std::string> environment = Environment(options.environment);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes,
                                 Pointers(&argv).data(), Pointers(&environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw SystemError("cannot start " + argv[0], error);
  return pid;
}

}  // namespace

TempDir::TempDir() {
  const std::string pattern = "coatrack-test-" + std::string(6, 'X');
  std::string name = (std::filesystem::temp_directory_path() / pattern).string();
  if (::mkdtemp(name.data()) == nullptr) throw SystemError("mkdtemp " + name, errno);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

bool WaitUntil(const std::function<bool()>& condition, milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  while (!condition()) {
    if (SteadyClock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

Process::Process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  const std::string output = options.output_path.empty() ? "/dev/null" : options.output_path;
  pid_ = Spawn(argv, options, "/dev/null", output, output);
}

Process::~Process() {
  ::kill(-pid_, SIGKILL);
  if (!status_) ::waitpid(pid_, nullptr, 0);
}

void Process::Signal(int signal) const { ::kill(pid_, signal); }

bool Process::running() { return !Wait(milliseconds(0)); }

std::optional<int> Process::Wait(milliseconds timeout) {
  WaitUntil(
      [this] {
        int status = 0;
        if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = StatusOf(status);
        return status_.has_value();
      },
      timeout);
  return status_;
}

Finished RunProgram(const std::vector<std::string>& argv, milliseconds timeout,
                    const std::string& input) {
  const TempDir dir;
  WriteFile(dir.file("in"), input);
  Finished finished;
  const pid_t pid = Spawn(argv, {}, dir.file("in"), dir.file("out"), dir.file("err"));
  int status = 0;
  const bool ended = WaitUntil([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, timeout);
  ::kill(-pid, SIGKILL);
  if (ended) {
    finished.status = StatusOf(status);
  } else {
    ::waitpid(pid, nullptr, 0);
  }
  finished.out = ReadFile(dir.file("out"));
  finished.err = ReadFile(dir.file("err"));
  return finished;
}

int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw SystemError("no free port", errno);
  return ntohs(address.sin_port);
}

}  // namespace coat::testing
