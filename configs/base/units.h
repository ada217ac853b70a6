// Bytes, durations and counts as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "configs/base/status.h"

namespace coat {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;

constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

std::string FormatBytes(int64_t bytes);    // "1.5 GiB", "312 B"
std::string FormatDurationMs(int64_t ms);  // "1h02m", "3m05s", "4.2s", "12ms"
std::string FormatCount(int64_t count);    // "1,048,576"

// "30m", "1h30m", "1.5s", "250ms" -> milliseconds; a missing or unknown unit is refused.
Result<int64_t> ParseDurationMs(std::string_view text);

}  // namespace coat
