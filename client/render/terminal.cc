#include "client/render/terminal.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "configs/base/units.h"

namespace coat {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string Clock(int64_t seconds, const char* format) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &parts));
}

}  // namespace

int TextWidth(std::string_view text) {
  return static_cast<int>(
      text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), IsContinuation)));
}

std::string Fit(std::string_view text, int columns) {
  if (TextWidth(text) <= columns) return std::string(text);
  const int kept = std::max(0, columns - 3);
  size_t end = 0;
  for (int width = 0; end < text.size(); ++end) {
    if (!IsContinuation(text[end]) && ++width > kept) break;
  }
  return std::string(text.substr(0, end)) + "...";
}

std::string Printable(std::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return clean;
}

std::string FormatAge(int64_t seconds) {
  if (seconds < 0) seconds = 0;
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 2 * 3600) return std::to_string(seconds / 60) + "m";
  if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + "h";
  return std::to_string(seconds / 86400) + "d";
}

std::string FormatReal(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  const bool tiny = value != 0 && std::fabs(value) < 0.5 * std::pow(10.0, -digits + 1);
  const bool huge = std::fabs(value) >= 1e9;
  std::snprintf(text, sizeof text, tiny || huge ? "%.*e" : "%.*f", tiny || huge ? 2 : digits,
                value);
  return text;
}

std::string FormatTime(int64_t seconds) {
  return seconds == 0 ? "-" : Clock(seconds, "%Y-%m-%d %H:%M:%SZ");
}

std::string FormatClock(int64_t seconds) { return Clock(seconds, "%H:%M:%S"); }

std::string FormatRate(double tokens_per_second) {
  if (!std::isfinite(tokens_per_second) || tokens_per_second < 0) return "-";
  return FormatCount(std::llround(std::min(tokens_per_second, 1e15)));
}

}  // namespace coat
