#include "worker/supervisor/identity.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace coat {
namespace {

Status IoError(const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {full ? Code::kResourceExhausted : Code::kIo,
          path + ": " + std::strerror(error) + (full ? "; free space on this disk" : "")};
}

Status WriteAll(int fd, const std::string& path, const std::string& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = write(fd, content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(path, errno);
    done += static_cast<size_t>(count);
  }
  if (fsync(fd) != 0) return IoError(path, errno);
  return {};
}

}  // namespace

std::string NewUuid() {
  std::random_device device;
  std::array<uint32_t, 4> word{device(), device(), device(), device()};
  word[1] = (word[1] & 0xffff0fffU) | 0x00004000U;
  word[2] = (word[2] & 0x3fffffffU) | 0x80000000U;
  std::array<char, 37> text{};
  std::snprintf(text.data(), text.size(), "%08x-%04x-%04x-%04x-%04x%08x", word[0], word[1] >> 16,
                word[1] & 0xffffU, word[2] >> 16, word[2] & 0xffffU, word[3]);
  return text.data();
}

Status ReplaceFile(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return IoError(temporary, errno);
  const Status written = WriteAll(fd, temporary, content);
  close(fd);
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return IoError(path, errno);
  return {};
}

StateDir::StateDir(std::string path, int lock_fd, int64_t epoch)
    : path_(std::move(path)), lock_fd_(lock_fd), epoch_(epoch) {}

StateDir::~StateDir() { close(lock_fd_); }

Result<std::unique_ptr<StateDir>> StateDir::Open(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Status(Code::kIo, path + ": " + error.message());
  const std::string lock_path = path + "/daemon.lock";
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return IoError(lock_path, errno);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return Status(Code::kFailedPrecondition,
                  path +
                      ": another coat-worker uses this state directory; stop it, or give this "
                      "one its own --state-dir");
  }
  int64_t epoch = 0;
  std::ifstream(path + "/epoch") >> epoch;
  return std::unique_ptr<StateDir>(new StateDir(path, fd, epoch));
}

Status StateDir::RaiseEpoch(int64_t epoch) {
  if (epoch <= epoch_) return {};
  epoch_ = epoch;
  return ReplaceFile(path_ + "/epoch", std::to_string(epoch) + "\n");
}

}  // namespace coat
