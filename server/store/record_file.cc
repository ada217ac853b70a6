#include "server/store/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

namespace coat {
namespace {

using coatrack::v1::StepRecord;

Status FileError(const std::string& path) {
  const Code code = errno == ENOSPC || errno == EDQUOT ? Code::kResourceExhausted : Code::kIo;
  return {code, path + ": " + std::strerror(errno)};
}

bool WriteFully(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool Plain(const StepRecord& record) {
  return !record.has_validation_loss() && record.checkpoint().empty() &&
         record.weights_hash().empty();
}

}  // namespace

void AppendFrame(const StepRecord& record, std::string* bytes) {
  const auto size = static_cast<uint32_t>(record.ByteSizeLong());
  for (int shift = 0; shift < 32; shift += 8) bytes->push_back(static_cast<char>(size >> shift));
  record.AppendToString(bytes);
}

std::vector<StepRecord> ParseFrames(std::string_view bytes, int64_t* end) {
  std::vector<StepRecord> records;
  size_t place = 0;
  while (bytes.size() - place >= 4) {
    uint32_t size = 0;
    for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(bytes[place + i]);
    if (bytes.size() - place - 4 < size) break;
    StepRecord record;
    if (!record.ParseFromArray(bytes.data() + place + 4, static_cast<int>(size))) break;
    records.push_back(std::move(record));
    place += 4 + size;
  }
  *end = static_cast<int64_t>(place);
  return records;
}

std::vector<StepRecord> MergeRecords(std::vector<StepRecord> records, int64_t after_step) {
  std::map<std::pair<int64_t, int32_t>, int32_t> newest;  // (step, rank) -> attempt
  for (const StepRecord& record : records) {
    int32_t& attempt = newest[{record.step(), record.rank()}];
    attempt = std::max(attempt, record.attempt());
  }
  std::map<std::tuple<int64_t, int32_t, int>, StepRecord> merged;
  for (StepRecord& record : records) {
    if (record.step() <= after_step) continue;
    if (record.attempt() < newest[{record.step(), record.rank()}]) continue;
    const std::tuple key(record.step(), record.rank(), static_cast<int>(record.phase()));
    merged[key] = std::move(record);
  }
  std::vector<StepRecord> result;
  result.reserve(merged.size());
  for (auto& [key, record] : merged) result.push_back(std::move(record));
  return result;
}

std::vector<StepRecord> Thin(std::vector<StepRecord> records) {
  std::vector<StepRecord> kept;
  bool drop = false;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i < records.size() / 2 && Plain(records[i])) {
      if (records[i].rank() != 0) continue;
      drop = !drop;
      if (drop) continue;
    }
    kept.push_back(std::move(records[i]));
  }
  return kept;
}

Result<std::string> ReadBytes(const std::string& path, int64_t offset, int64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::string();
    return FileError(path);
  }
  const off_t size = lseek(fd, 0, SEEK_END);
  std::string bytes(static_cast<size_t>(std::clamp<int64_t>(size - offset, 0, max_bytes)), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  close(fd);
  bytes.resize(done);
  return bytes;
}

Status AppendBytes(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(path);
  const off_t before = lseek(fd, 0, SEEK_END);
  Status status;
  if (!WriteFully(fd, bytes)) {
    status = FileError(path);
    // Half a frame must not stay in the middle of the file.
    if (ftruncate(fd, before) != 0) status = FileError(path);
  }
  close(fd);
  return status;
}

Status ReplaceFile(const std::string& path, std::string_view bytes) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(temporary);
  Status status = WriteFully(fd, bytes) ? Status() : FileError(temporary);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = FileError(path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace coat
