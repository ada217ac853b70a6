// The safetensors header (format.h), written and read as hostile input.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "worker/tensor/tensor.h"

namespace coat {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes from the end of the header
  int64_t end = 0;
};

struct SafetensorsHeader {
  int64_t header_bytes = 0;               // 8 + JSON: where data starts in the file
  std::vector<SafetensorsEntry> entries;  // by begin
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

// Length and JSON of a file whose entries stand in order without gaps (begin and end are set
// here). Names must be valid UTF-8.
std::string WriteSafetensorsHeader(std::vector<SafetensorsEntry>* entries,
                                   const std::map<std::string, std::string>& metadata);

// Length of the JSON from the first eight bytes. Error(kDataLoss) starting with `where` when the
// file is too short for it or it is above the limit.
int64_t ParseSafetensorsLength(std::string_view prefix, int64_t file_bytes,
                               const std::string& where);

// `json` as read after the length. Error(kDataLoss) with entry and file offset for: bad JSON or
// UTF-8, duplicate names, unknown fields or element types, sizes that overflow, offsets out of
// order or range, bytes that disagree with the shape, gaps, overlaps, or data behind the last
// entry.
SafetensorsHeader ParseSafetensorsHeader(std::string_view json, int64_t file_bytes,
                                         const std::string& where);

// F32, BF16, F8_E4M3, F8_E5M2, U16, I32, U8; false for other names.
bool ParseDType(std::string_view name, DType* dtype);

}  // namespace coat
