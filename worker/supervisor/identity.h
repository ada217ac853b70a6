// Who a daemon is, and what it remembers between its starts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "configs/base/status.h"

namespace coat {

std::string NewUuid();  // random, version 4, lower case

// <state_dir>/daemon.lock: held while the daemon lives, so that two never share a state directory.
// <state_dir>/epoch: the highest epoch of a coordinator seen. One thread at a time.
class StateDir {
 public:
  // Creates the directory. kFailedPrecondition when another daemon holds it; kIo naming the path.
  static Result<std::unique_ptr<StateDir>> Open(const std::string& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  const std::string& path() const { return path_; }
  int64_t epoch() const { return epoch_; }  // 0: never heard of one
  // Remembers a higher epoch. When the disk refuses, it is remembered until the daemon ends.
  Status RaiseEpoch(int64_t epoch);

 private:
  StateDir(std::string path, int lock_fd, int64_t epoch);

  std::string path_;
  int lock_fd_;
  int64_t epoch_;
};

// Replaces a file as a whole: temporary name, fsync, rename. kIo naming the path and the cause;
// kResourceExhausted when the disk is full.
Status ReplaceFile(const std::string& path, const std::string& content);

}  // namespace coat
