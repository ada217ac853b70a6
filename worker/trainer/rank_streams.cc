#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "configs/base/units.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

struct Piece {
  std::string data;
  int64_t offset = 0;
};

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  int64_t size() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 ? info.st_size : 0;
  }

 private:
  int fd_;
};

Status StreamError(const std::string& what, const std::string& path) {
  return Status(Code::kIo, what + " " + path + ": " + std::strerror(errno));
}

// Bytes from the first that still exists at or after `offset`. A hole is punched in whole blocks,
// so SEEK_DATA finds its end.
Result<Piece> ReadPiece(const std::string& path, int64_t offset, int64_t max_bytes) {
  Piece piece;
  piece.offset = offset;
  const File file(path, O_RDONLY);
  if (file.fd() < 0) {
    return errno == ENOENT ? Result<Piece>(piece) : StreamError("cannot open", path);
  }
  const int64_t size = file.size();
  if (offset >= size) return piece;
  const off_t data = ::lseek(file.fd(), offset, SEEK_DATA);
  piece.offset = data < 0 ? size : data;
  piece.data.resize(static_cast<size_t>(std::min(max_bytes, size - piece.offset)));
  const ssize_t n = ::pread(file.fd(), piece.data.data(), piece.data.size(), piece.offset);
  if (n < 0) return StreamError("cannot read", path);
  piece.data.resize(static_cast<size_t>(n));
  return piece;
}

}  // namespace

Result<RecordChunk> ReadRecords(const std::string& dir, int64_t offset, int64_t max_bytes) {
  const std::string path = dir + "/" + kRecordsFile;
  RecordChunk chunk;
  chunk.next_offset = offset;
  ASSIGN_OR_RETURN(Piece piece, ReadPiece(path, offset, max_bytes));
  size_t begin = 0;
  if (piece.offset > offset) {  // trimmed: the hole ends within a line
    chunk.truncated = true;
    const size_t newline = piece.data.find('\n');
    if (newline == std::string::npos) {
      chunk.next_offset = piece.offset;
      return chunk;
    }
    begin = newline + 1;
  }
  if (piece.data.find('\n', begin) == std::string::npos &&
      static_cast<int64_t>(piece.data.size()) == max_bytes) {
    ASSIGN_OR_RETURN(RecordChunk larger, ReadRecords(dir, offset, 4 * max_bytes));
    return larger;  // one line is longer than max_bytes
  }
  for (size_t end; (end = piece.data.find('\n', begin)) != std::string::npos; begin = end + 1) {
    coatrack::v1::StepRecord record;
    const auto status =
        google::protobuf::util::JsonStringToMessage(piece.data.substr(begin, end - begin), &record);
    if (!status.ok()) {
      return Status(Code::kDataLoss,
                    path + " at offset " +
                        std::to_string(piece.offset + static_cast<int64_t>(begin)) +
                        ": not a record: " + status.ToString());
    }
    chunk.records.push_back(std::move(record));
  }
  chunk.next_offset = piece.offset + static_cast<int64_t>(begin);
  return chunk;
}

bool IsProgressOnly(const coatrack::v1::StepRecord& record) {
  if (record.phase() == coatrack::v1::PHASE_DONE) return false;
  coatrack::v1::StepRecord rest = record;
  rest.clear_step();
  rest.clear_attempt();
  rest.clear_rank();
  rest.clear_phase();
  rest.clear_collective_sequence();
  rest.clear_time();
  return rest.ByteSizeLong() == 0;
}

Result<OutputChunk> ReadOutput(const std::string& dir, int64_t offset, int64_t max_bytes) {
  ASSIGN_OR_RETURN(Piece piece, ReadPiece(dir + "/" + kOutputFile, offset, max_bytes));
  OutputChunk chunk;
  chunk.truncated = piece.offset > offset;
  chunk.offset = piece.offset;
  chunk.next_offset = piece.offset + static_cast<int64_t>(piece.data.size());
  chunk.data = std::move(piece.data);
  return chunk;
}

int64_t OutputSize(const std::string& dir) {
  const File file(dir + "/" + kOutputFile, O_RDONLY);
  return file.fd() < 0 ? 0 : file.size();
}

Status TrimHead(const std::string& path, int64_t limit_bytes) {
  const File file(path, O_RDWR);
  if (file.fd() < 0) return errno == ENOENT ? Status() : StreamError("cannot open", path);
  const int64_t size = file.size();
  const off_t data = ::lseek(file.fd(), 0, SEEK_DATA);
  if (data < 0 || size - data <= limit_bytes) return Status();
  // A quarter of slack, so that not every line moves the hole.
  const int64_t end = RoundUp(size - limit_bytes + limit_bytes / 4, kTrimBlockBytes);
  if (end >= size) return Status();
  if (::fallocate(file.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end) != 0) {
    return StreamError("cannot trim (the file system must support hole punching)", path);
  }
  return Status();
}

}  // namespace coat
