// Real processes for tests: every wait has a time-out, nothing is left running.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace coat::testing {

// A directory of its own below the system's temporary one, removed with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string ReadFile(const std::string& path);  // empty when missing
void WriteFile(const std::string& path, const std::string& text);

// Polls until `condition` holds; false after the time-out.
bool WaitUntil(const std::function<bool()>& condition,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

struct ProcessOptions {
  std::string output_path;               // stdout and stderr are appended there; empty: discarded
  std::vector<std::string> environment;  // "NAME=value", added to this process's
  std::string directory;                 // to run in; empty: this one's
};

// A child in a process group of its own; the whole group is killed on destruction.
class Process {
 public:
  // Throws std::runtime_error when the program cannot be started.
  explicit Process(const std::vector<std::string>& argv, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  bool running();
  // Exit status, or 128 + signal; nothing when it still runs after the time-out.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

struct Finished {
  int status = -1;  // -1: killed by this test after the time-out
  std::string out;
  std::string err;
};
// Runs a program to its end. `input` is its stdin.
Finished RunProgram(const std::vector<std::string>& argv,
                    std::chrono::milliseconds timeout = std::chrono::seconds(60),
                    const std::string& input = "");

// A TCP port that was free a moment ago on 127.0.0.1. Prefer binding port 0 where possible.
int FreePort();

}  // namespace coat::testing
