// Layouts of files of token ids.
#pragma once

#include <cstdint>
#include <string>

#include "coatrack/v1/job.pb.h"

namespace coat {

// Where the ids lie. llm.c files (dev/data in github.com/karpathy/llm.c): 256 little-endian int32
// words: magic, version, number of tokens, zeros; then the ids. Magic 20240520 version 1: uint16;
// magic 20240801 version 7: uint32.
struct TokenLayout {
  int64_t offset_bytes = 0;  // of the first id
  int element_bytes = 1;     // 1 (text as bytes), 2 or 4, little endian
  int64_t count = 0;
};

inline constexpr int64_t kLlmcHeaderBytes = 1024;
inline constexpr int32_t kLlmcMagicU16 = 20240520;
inline constexpr int32_t kLlmcVersionU16 = 1;
inline constexpr int32_t kLlmcMagicU32 = 20240801;
inline constexpr int32_t kLlmcVersionU32 = 7;

// Reads the header of `path` and checks it against `file_bytes`. `name` stands in messages.
// Error(kInvalidArgument) naming file and offset for: an empty file, an unknown magic or version,
// a count that disagrees with the size, a size that is no multiple of the element, a header where
// none was announced (llm.c, NumPy). Error(kIo) when it can't be read.
TokenLayout ReadTokenLayout(const std::string& path, const std::string& name, int64_t file_bytes,
                            coatrack::v1::TokenFormat format);

}  // namespace coat
