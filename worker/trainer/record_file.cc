#include "worker/trainer/record_file.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "configs/base/error.h"

namespace coat {

RecordFile::RecordFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) throw Error(Code::kIo, "cannot open " + path + ": " + std::strerror(errno));
}

RecordFile::~RecordFile() { ::close(fd_); }

void RecordFile::Write(const coatrack::v1::StepRecord& record) {
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(record, &line);
  if (!status.ok()) throw Error(Code::kInternal, "record: " + status.ToString());
  line += '\n';
  const std::lock_guard lock(mutex_);
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  const ssize_t n = ::write(fd_, line.data(), line.size());
  if (n == static_cast<ssize_t>(line.size())) return;
  const int error = n < 0 ? errno : ENOSPC;
  // Half a line would spoil the next one.
  if (n > 0 && ::ftruncate(fd_, end) != 0) std::fprintf(stderr, "cannot cut %s\n", path_.c_str());
  if (!failed_) {
    std::fprintf(stderr, "cannot write %s: %s; training goes on without its records\n",
                 path_.c_str(), std::strerror(error));
  }
  failed_ = true;
}

}  // namespace coat
