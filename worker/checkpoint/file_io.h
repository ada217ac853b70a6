// Files that are durable or not there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coat {

// Throws Error for errno `error`: kResourceExhausted for a full disk, a quota or a file size limit,
// kNotFound, else kIo. Message: "<path>: <what>: <reason>".
[[noreturn]] void ThrowErrno(const std::string& path, const std::string& what, int error);

// A file being written from its start. Unless Close was reached, the destructor removes it.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  // created or emptied
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void Write(const void* data, int64_t bytes);
  void Close();  // fsync, close

 private:
  std::string path_;
  int fd_;
};

class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(const InputFile&) = delete;
  int64_t bytes() const { return bytes_; }  // at opening
  const std::string& path() const { return path_; }
  // Exactly `bytes` bytes; Error(kDataLoss) with the offset where the file ends early.
  void Read(int64_t offset, int64_t bytes, void* out) const;

 private:
  std::string path_;
  int fd_;
  int64_t bytes_ = 0;
};

void WriteFile(const std::string& path, std::string_view text);  // durable, folder entry apart
std::string ReadFile(const std::string& path);
void SyncFolder(const std::string& path);  // makes created, renamed and removed names durable
std::vector<std::string> ListFolder(const std::string& path);  // names in it, sorted
void MakeFolders(const std::string& path);                     // with those above it
void RemoveTree(const std::string& path);                      // may be missing

}  // namespace coat
