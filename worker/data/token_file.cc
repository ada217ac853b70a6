#include "worker/data/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "configs/base/error.h"

namespace coat {
namespace {

[[noreturn]] void Refuse(const std::string& name, int64_t offset, const std::string& what) {
  throw Error(Code::kInvalidArgument, name + ": offset " + std::to_string(offset) + ": " + what);
}

struct Head {
  std::array<unsigned char, 12> bytes{};
  int64_t size = 0;
  int32_t Word(size_t i) const {
    int32_t word;
    std::memcpy(&word, bytes.data() + 4 * i, 4);
    return word;
  }
};

Head ReadHead(const std::string& path, const std::string& name) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Code::kIo, name + ": can't be opened: " + std::strerror(errno));
  Head head;
  ssize_t got = ::pread(fd, head.bytes.data(), head.bytes.size(), 0);
  int error = errno;
  ::close(fd);
  if (got < 0) throw Error(Code::kIo, name + ": can't be read: " + std::strerror(error));
  head.size = got;
  return head;
}

TokenLayout LlmcLayout(const Head& head, const std::string& name, int64_t file_bytes) {
  if (head.size < 12 || file_bytes < kLlmcHeaderBytes) {
    Refuse(name, 0,
           "the file has " + std::to_string(file_bytes) +
               " bytes, fewer than the 1024 of an llm.c header");
  }
  int32_t magic = head.Word(0);
  int32_t version = head.Word(1);
  bool wide = magic == kLlmcMagicU32;
  if (!wide && magic != kLlmcMagicU16) {
    Refuse(name, 0,
           "magic " + std::to_string(magic) +
               " is not llm.c's 20240520 or 20240801; for a file without a header set "
               "data.token_format to uint16 or uint32");
  }
  int32_t expected = wide ? kLlmcVersionU32 : kLlmcVersionU16;
  if (version != expected) {
    Refuse(name, 4,
           "version " + std::to_string(version) + ", but magic " + std::to_string(magic) +
               " goes with version " + std::to_string(expected));
  }
  TokenLayout layout{kLlmcHeaderBytes, wide ? 4 : 2, head.Word(2)};
  if (layout.count <= 0) {
    Refuse(name, 8, "the header announces " + std::to_string(layout.count) + " tokens");
  }
  int64_t needed = kLlmcHeaderBytes + layout.count * layout.element_bytes;
  if (needed != file_bytes) {
    Refuse(name, 8,
           "the header announces " + std::to_string(layout.count) + " tokens, so " +
               std::to_string(needed) + " bytes, but the file has " + std::to_string(file_bytes));
  }
  return layout;
}

TokenLayout PlainLayout(const Head& head, const std::string& name, int64_t file_bytes,
                        int element_bytes) {
  static constexpr char kNumpy[] = "\x93NUMPY";
  if (head.size >= 6 && std::memcmp(head.bytes.data(), kNumpy, 6) == 0) {
    Refuse(name, 0, "the file has a NumPy header; write the ids with ndarray.tofile instead");
  }
  int32_t magic = head.size >= 4 ? head.Word(0) : 0;
  if (magic == kLlmcMagicU16 || magic == kLlmcMagicU32) {
    Refuse(name, 0, "the file has an llm.c header; set data.token_format to llmc");
  }
  if (file_bytes % element_bytes != 0) {
    Refuse(name, file_bytes - file_bytes % element_bytes,
           "a rest of " + std::to_string(file_bytes % element_bytes) + " bytes is no uint" +
               std::to_string(8 * element_bytes));
  }
  return {0, element_bytes, file_bytes / element_bytes};
}

}  // namespace

TokenLayout ReadTokenLayout(const std::string& path, const std::string& name, int64_t file_bytes,
                            coatrack::v1::TokenFormat format) {
  if (file_bytes == 0) Refuse(name, 0, "the file is empty");
  Head head = ReadHead(path, name);
  switch (format) {
    case coatrack::v1::TOKEN_FORMAT_UNSPECIFIED:
    case coatrack::v1::TOKEN_FORMAT_LLMC: return LlmcLayout(head, name, file_bytes);
    case coatrack::v1::TOKEN_FORMAT_UINT16: return PlainLayout(head, name, file_bytes, 2);
    case coatrack::v1::TOKEN_FORMAT_UINT32: return PlainLayout(head, name, file_bytes, 4);
    default:
      throw Error(Code::kInvalidArgument, "data.token_format: value " +
                                              std::to_string(static_cast<int>(format)) +
                                              " is not known here; use llmc, uint16 or uint32");
  }
}

}  // namespace coat
