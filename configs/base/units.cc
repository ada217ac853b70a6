#include "configs/base/units.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace coat {
namespace {

std::string Printf(const char* format, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}

int64_t UnitMs(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit == "s") return 1000;
  if (unit == "m") return 60 * 1000;
  if (unit == "h") return 3600 * 1000;
  if (unit == "d") return 24 * 3600 * 1000;
  return 0;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::fabs(value) >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return Printf(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string FormatDurationMs(int64_t ms) {
  char buffer[64];
  const long long s = ms / 1000;
  if (ms < 1000) {
    std::snprintf(buffer, sizeof buffer, "%lldms", static_cast<long long>(ms));
  } else if (s < 60) {
    std::snprintf(buffer, sizeof buffer, "%.1fs", static_cast<double>(ms) / 1000);
  } else if (s < 3600) {
    std::snprintf(buffer, sizeof buffer, "%lldm%02llds", s / 60, s % 60);
  } else if (s < 48 * 3600) {
    std::snprintf(buffer, sizeof buffer, "%lldh%02lldm", s / 3600, s / 60 % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lldd%02lldh", s / 86400, s / 3600 % 24);
  }
  return buffer;
}

std::string FormatCount(int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return count < 0 ? "-" + digits : digits;
}

Result<int64_t> ParseDurationMs(std::string_view text) {
  const Status bad(Code::kInvalidArgument, "'" + std::string(text) +
                                               "' is not a duration; write a number and a unit, " +
                                               "such as 30s, 15m or 1h30m");
  double total_ms = 0;
  size_t i = 0;
  while (i < text.size()) {
    const size_t start = i;
    while (i < text.size() && (IsDigit(text[i]) || text[i] == '.')) ++i;
    const std::string number(text.substr(start, i - start));
    const size_t unit_start = i;
    while (i < text.size() && text[i] >= 'a' && text[i] <= 'z') ++i;
    const int64_t unit_ms = UnitMs(text.substr(unit_start, i - unit_start));
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || !IsDigit(number[0]) || *end != '\0' || unit_ms == 0) return bad;
    total_ms += value * static_cast<double>(unit_ms);
  }
  if (text.empty() || total_ms > 9e15) return bad;
  return static_cast<int64_t>(std::llround(total_ms));
}

}  // namespace coat
