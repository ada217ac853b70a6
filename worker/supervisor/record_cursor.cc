#include "worker/supervisor/record_cursor.h"

#include <spdlog/spdlog.h>

#include <fstream>

namespace coat {
namespace {

// Bytes from `offset` to the end of its line, the newline included; 0 when it has none.
int64_t LineBytes(const std::string& path, int64_t offset) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  std::string line;
  if (!std::getline(file, line) || file.eof()) return 0;
  return static_cast<int64_t>(line.size()) + 1;
}

}  // namespace

Result<RecordChunk> ReadGoodRecords(const std::string& dir, int64_t offset, int64_t max_bytes) {
  auto chunk = ReadRecords(dir, offset, max_bytes);
  if (chunk.ok() || chunk.status().code() != Code::kDataLoss) return chunk;
  const int64_t line_bytes = LineBytes(dir + "/" + kRecordsFile, offset);
  if (line_bytes == 0) return chunk;
  auto first = ReadRecords(dir, offset, line_bytes);
  if (first.ok()) return first;
  spdlog::warn("{}; the line is skipped", first.status().message());
  RecordChunk skipped;
  skipped.next_offset = offset + line_bytes;
  return skipped;
}

}  // namespace coat
