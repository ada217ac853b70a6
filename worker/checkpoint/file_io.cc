#include "worker/checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "configs/base/error.h"

namespace coat {
namespace {

constexpr int64_t kMostBytesACall = int64_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB

}  // namespace

void ThrowErrno(const std::string& path, const std::string& what, int error) {
  Code code = Code::kIo;
  std::string remedy;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    code = Code::kResourceExhausted;
    remedy = "; free space there, or keep fewer checkpoints";
  } else if (error == ENOENT) {
    code = Code::kNotFound;
  }
  throw Error(code, path + ": " + what + ": " + std::strerror(error) + remedy);
}

OutputFile::OutputFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) ThrowErrno(path_, "can't be created", errno);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void OutputFile::Write(const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t n = ::write(fd_, from, static_cast<size_t>(std::min(bytes, kMostBytesACall)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ThrowErrno(path_, "can't be written", errno);
    from += n;
    bytes -= n;
  }
}

void OutputFile::Close() {
  if (::fsync(fd_) != 0) ThrowErrno(path_, "can't be made durable", errno);
  int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) {
    int error = errno;
    ::unlink(path_.c_str());
    ThrowErrno(path_, "can't be closed", error);
  }
}

InputFile::InputFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) ThrowErrno(path_, "can't be opened", errno);
  struct stat info;
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    ThrowErrno(path_, "is not a regular file", EINVAL);
  }
  bytes_ = info.st_size;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}

void InputFile::Read(int64_t offset, int64_t bytes, void* out) const {
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    ssize_t n = ::pread(fd_, to, static_cast<size_t>(std::min(bytes, kMostBytesACall)), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ThrowErrno(path_, "offset " + std::to_string(offset) + " can't be read", errno);
    if (n == 0) {
      throw Error(Code::kDataLoss, path_ + ": ends at offset " + std::to_string(offset) + ", " +
                                       std::to_string(bytes) + " bytes early");
    }
    to += n;
    offset += n;
    bytes -= n;
  }
}

void WriteFile(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.Write(text.data(), static_cast<int64_t>(text.size()));
  file.Close();
}

std::string ReadFile(const std::string& path) {
  InputFile file(path);
  std::string text(static_cast<size_t>(file.bytes()), '\0');
  file.Read(0, file.bytes(), text.data());
  return text;
}

void SyncFolder(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) ThrowErrno(path, "can't be opened", errno);
  int result = ::fsync(fd);
  int error = errno;
  ::close(fd);
  if (result != 0) ThrowErrno(path, "can't be made durable", error);
}

std::vector<std::string> ListFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) ThrowErrno(path, "can't be listed", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

void MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) ThrowErrno(path, "can't be created", error.value());
}

void RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) ThrowErrno(path, "can't be removed", error.value());
}

}  // namespace coat
