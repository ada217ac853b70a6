// All data files as one sequence of ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/data/token_file.h"

namespace coat {

// Read-only bytes of a file: mapped when large, copied when small (the kernel limits the number of
// mappings, and a corpus may be a hundred thousand small files).
class FileBytes {
 public:
  // Error(kIo) when the file can't be opened or mapped; Error(kDataChanged) when its size differs.
  FileBytes(const std::string& path, const std::string& name, int64_t file_bytes);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  const unsigned char* data() const { return data_; }

 private:
  std::vector<unsigned char> copy_;
  void* map_ = nullptr;
  int64_t bytes_ = 0;
  const unsigned char* data_ = nullptr;
};

// Thread-safe once filled.
class TokenStream {
 public:
  // With end_id >= 0 the id follows the file's ids (text: one document a file).
  void Add(std::unique_ptr<FileBytes> bytes, const TokenLayout& layout, int32_t end_id);
  int64_t size() const { return starts_.empty() ? 0 : starts_.back(); }
  // Ids [first, first + count); the range must lie inside the stream.
  void Copy(int64_t first, int64_t count, int32_t* out) const;

 private:
  struct Part {
    std::unique_ptr<FileBytes> bytes;
    TokenLayout layout;
    int32_t end_id;
  };
  std::vector<Part> parts_;
  std::vector<int64_t> starts_;  // starts_[i]: ids before part i + 1
};

}  // namespace coat
