// What every verb works with: streams, settings, the connection, and how faults end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "client/render/terminal.h"
#include "client/rpc/job_client.h"
#include "configs/base/status.h"

namespace coat {

// Exit codes of SERVICE.md.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFailed = 100;     // wait and run: the job failed
inline constexpr int kExitNotFound = 102;   // wait and run: there is no such job
inline constexpr int kExitCancelled = 103;  // wait and run: the job was cancelled
inline constexpr int kExitTimeout = 124;

// The world outside, as main or a test hands it in.
struct Host {
  std::istream* in = nullptr;
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  Terminal out_terminal;
  std::function<ScreenSize()> screen_size;  // of `out` as it is now, if that is a screen
  Terminal err_terminal;
  Terminal::Kind in_kind = Terminal::Kind::kFile;
  std::string config_path;  // of a ClientConfig; need not exist
  std::string server;       // COAT_SERVER
  RetryPolicy retry;
  std::function<int64_t()> now_s;  // seconds since 1970
};

// Options that stand before or after every verb.
struct GlobalOptions {
  std::string server;
  std::string timeout;
};

class Context {
 public:
  // `options` outlives it and is filled before the first call here.
  Context(Host host, const GlobalOptions* options) : host_(std::move(host)), options_(options) {}

  std::ostream& out() { return *host_.out; }
  std::ostream& err() { return *host_.err; }
  const Host& host() const { return host_; }
  int64_t now_s() const { return host_.now_s(); }

  // --server, else COAT_SERVER, else the configuration file, else the default.
  Result<std::string> ServerAddress() const;
  // Whether one of the first three names it.
  bool names_server() const;
  // The client, made at the first call.
  Result<JobClient*> Connect();
  // A client of its own that gives up quickly, for what is nice to know.
  Result<std::unique_ptr<JobClient>> ConnectBriefly() const;

  // --timeout; nothing when it is not given.
  std::optional<std::chrono::milliseconds> timeout() const;
  // The end of --timeout counted from now.
  std::optional<std::chrono::steady_clock::time_point> Until() const;

  // Prints "coat: ..." to stderr and returns the exit code: 124 for a passed deadline, else 1.
  int Fail(const Status& status);
  // A line to stderr.
  void Say(const std::string& line);
  // Asks on the terminal; true without asking when `yes` or when nobody is there to answer.
  bool Confirm(const std::string& question, bool yes);

 private:
  Host host_;
  const GlobalOptions* options_;
  std::unique_ptr<JobClient> client_;
};

}  // namespace coat
