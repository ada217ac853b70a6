// The one full read of a data file, at open.
#pragma once

#include <cstdint>
#include <string>

#include "worker/data/token_file.h"

namespace coat {

struct ScanResult {
  std::string sha256;   // lower-case hex, of the whole file
  int64_t max_id = -1;  // -1: no ids
};

// Reads `path` once, front to back, in blocks of 4 MiB. Cost: SHA-256, about 1 GB/s a core.
// Error(kInvalidArgument) naming `name`, byte offset and id for the first id >= vocab_size, and for
// uint16 ids whose every second one is zero (uint32 ids read as uint16).
// Error(kDataChanged) when the file has not `file_bytes` bytes any more; Error(kIo).
ScanResult ScanFile(const std::string& path, const std::string& name, int64_t file_bytes,
                    const TokenLayout& layout, int64_t vocab_size);

}  // namespace coat
