#include "worker/data/token_stream.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "configs/base/error.h"

namespace coat {
namespace {

constexpr int64_t kLeastToMap = int64_t{1} << 20;

[[noreturn]] void Changed(const std::string& name, int64_t was, int64_t is) {
  throw Error(Code::kDataChanged,
              name + ": had " + std::to_string(was) + " bytes, now " + std::to_string(is));
}

// A throw between open and close must not leak the descriptor.
struct Closer {
  int fd;
  ~Closer() { ::close(fd); }
};

template <typename T>
void Widen(const unsigned char* bytes, int64_t count, int32_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    T id;
    std::memcpy(&id, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(id));
    out[i] = static_cast<int32_t>(id);
  }
}

}  // namespace

FileBytes::FileBytes(const std::string& path, const std::string& name, int64_t file_bytes)
    : bytes_(file_bytes) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Code::kIo, name + ": can't be opened: " + std::strerror(errno));
  Closer closer{fd};
  struct stat info;
  if (::fstat(fd, &info) != 0) throw Error(Code::kIo, name + ": " + std::strerror(errno));
  if (info.st_size != file_bytes) Changed(name, file_bytes, info.st_size);
  if (file_bytes < kLeastToMap) {
    copy_.resize(static_cast<size_t>(file_bytes));
    int64_t got = 0;
    while (got < file_bytes) {
      ssize_t n = ::pread(fd, copy_.data() + got, static_cast<size_t>(file_bytes - got), got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error(Code::kIo, name + ": can't be read: " + std::strerror(errno));
      if (n == 0) Changed(name, file_bytes, got);
      got += n;
    }
    data_ = copy_.data();
    return;
  }
  void* map = ::mmap(nullptr, static_cast<size_t>(file_bytes), PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    throw Error(Code::kIo, name + ": can't be mapped: " + std::strerror(errno));
  }
  ::madvise(map, static_cast<size_t>(file_bytes), MADV_RANDOM);
  map_ = map;
  data_ = static_cast<const unsigned char*>(map);
}

FileBytes::~FileBytes() {
  if (map_ != nullptr) ::munmap(map_, static_cast<size_t>(bytes_));
}

void TokenStream::Add(std::unique_ptr<FileBytes> bytes, const TokenLayout& layout, int32_t end_id) {
  starts_.push_back(size() + layout.count + (end_id >= 0 ? 1 : 0));
  parts_.push_back({std::move(bytes), layout, end_id});
}

void TokenStream::Copy(int64_t first, int64_t count, int32_t* out) const {
  Check(first >= 0 && count >= 0 && first <= size() - count, "range outside the token stream");
  auto at = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin();
  for (size_t part = static_cast<size_t>(at); count > 0; ++part) {
    const Part& p = parts_[part];
    int64_t place = first - (part == 0 ? 0 : starts_[part - 1]);
    int64_t n = std::min(count, std::max<int64_t>(p.layout.count - place, 0));
    const unsigned char* bytes =
        p.bytes->data() + p.layout.offset_bytes + place * p.layout.element_bytes;
    switch (p.layout.element_bytes) {
      case 1: Widen<uint8_t>(bytes, n, out); break;
      case 2: Widen<uint16_t>(bytes, n, out); break;
      default: Widen<uint32_t>(bytes, n, out); break;
    }
    if (n < count && p.end_id >= 0) out[n++] = p.end_id;
    first += n;
    out += n;
    count -= n;
  }
}

}  // namespace coat
