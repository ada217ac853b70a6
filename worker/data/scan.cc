#include "worker/data/scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "configs/base/error.h"
#include "worker/checkpoint/sha256.h"

namespace coat {
namespace {

constexpr int64_t kMostBlockBytes = int64_t{4} << 20;  // a multiple of elements and header
constexpr int64_t kLeastForTypeCheck = 64;             // ids; shorter files are no evidence

struct Pairs {
  uint32_t even = 0;  // all ids at even places, or'ed
  uint32_t odd = 0;
};

// The largest id of a block, and what its even and odd places have in common.
template <typename T>
uint32_t ScanBlock(const unsigned char* bytes, int64_t count, Pairs* pairs) {
  T largest = 0, even = 0, odd = 0;
  const int64_t both = count / 2;
  for (int64_t i = 0; i < both; ++i) {
    T pair[2];
    std::memcpy(pair, bytes + 2 * i * static_cast<int64_t>(sizeof(T)), sizeof(pair));
    largest = std::max(largest, std::max(pair[0], pair[1]));
    even |= pair[0];
    odd |= pair[1];
  }
  if (count % 2 != 0) {
    T rest;
    std::memcpy(&rest, bytes + (count - 1) * static_cast<int64_t>(sizeof(T)), sizeof(rest));
    largest = std::max(largest, rest);
    even |= rest;
  }
  pairs->even |= even;
  pairs->odd |= odd;
  return largest;
}

template <typename T>
[[noreturn]] void RefuseId(const std::string& name, const unsigned char* bytes, int64_t offset,
                           int64_t vocab_size) {
  for (int64_t i = 0;; ++i) {
    T id;
    std::memcpy(&id, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(id));
    if (static_cast<int64_t>(id) < vocab_size) continue;
    throw Error(Code::kInvalidArgument,
                name + ": offset " + std::to_string(offset + i * static_cast<int64_t>(sizeof(T))) +
                    ": id " + std::to_string(id) + " is not below the vocabulary's size " +
                    std::to_string(vocab_size) + "; check model.vocab_size and data.token_format");
  }
}

class Descriptor {
 public:
  Descriptor(const std::string& path, const std::string& name)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw Error(Code::kIo, name + ": can't be opened: " + std::strerror(errno));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Fills `block` from `offset` as far as the file goes.
int64_t ReadBlock(int fd, const std::string& name, int64_t offset,
                  std::vector<unsigned char>* block) {
  auto size = static_cast<int64_t>(block->size());
  int64_t got = 0;
  while (got < size) {
    ssize_t n = ::pread(fd, block->data() + got, static_cast<size_t>(size - got), offset + got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw Error(Code::kIo, name + ": offset " + std::to_string(offset + got) +
                                 ": can't be read: " + std::strerror(errno));
    }
    if (n == 0) break;
    got += n;
  }
  return got;
}

}  // namespace

ScanResult ScanFile(const std::string& path, const std::string& name, int64_t file_bytes,
                    const TokenLayout& layout, int64_t vocab_size) {
  Descriptor file(path, name);
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  const int64_t block_bytes = std::min(file_bytes + 1, kMostBlockBytes);
  std::vector<unsigned char> block(static_cast<size_t>(block_bytes));
  Sha256 hash;
  Pairs pairs;
  ScanResult result;
  int64_t offset = 0;
  while (true) {
    int64_t got = ReadBlock(file.get(), name, offset, &block);
    if (offset + got > file_bytes || (got < block_bytes && offset + got != file_bytes)) {
      throw Error(Code::kDataChanged, name + ": the size changed from " +
                                          std::to_string(file_bytes) + " bytes while it was read");
    }
    hash.Update(block.data(), static_cast<size_t>(got));
    int64_t skip = offset < layout.offset_bytes ? layout.offset_bytes - offset : 0;
    int64_t count = (got - std::min(skip, got)) / layout.element_bytes;
    const unsigned char* ids = block.data() + skip;
    if (layout.element_bytes > 1 && count > 0) {
      bool wide = layout.element_bytes == 4;
      uint32_t largest =
          wide ? ScanBlock<uint32_t>(ids, count, &pairs) : ScanBlock<uint16_t>(ids, count, &pairs);
      if (largest >= vocab_size) {
        wide ? RefuseId<uint32_t>(name, ids, offset + skip, vocab_size)
             : RefuseId<uint16_t>(name, ids, offset + skip, vocab_size);
      }
      result.max_id = std::max<int64_t>(result.max_id, largest);
    }
    offset += got;
    if (got < block_bytes) break;
  }
  if (layout.element_bytes == 2 && layout.count >= kLeastForTypeCheck && pairs.odd == 0 &&
      pairs.even != 0) {
    throw Error(Code::kInvalidArgument,
                name + ": offset " + std::to_string(layout.offset_bytes + 2) +
                    ": every second id is zero, so these are uint32 ids read as uint16; set "
                    "data.token_format to uint32");
  }
  result.sha256 = hash.Finish();
  return result;
}

}  // namespace coat
