// What is known of where text goes, and the text forms shared by all views.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace coat {

enum class OutputFormat : uint8_t { kTable, kWide, kJson, kYaml, kName };

// Of one stream.
struct Terminal {
  enum class Kind : uint8_t { kFile, kScreen };
  enum class Charset : uint8_t { kAscii, kUtf8 };
  Kind kind = Kind::kFile;
  Charset charset = Charset::kAscii;
  int columns = 80;
  bool is_screen() const { return kind == Kind::kScreen; }
};

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};

// Columns that a UTF-8 text takes, one a code point; control characters are never printed.
int TextWidth(std::string_view text);
// At most `columns` wide; what is cut ends with "...".
std::string Fit(std::string_view text, int columns);
// Control characters become '?', so that names and messages cannot drive the terminal.
std::string Printable(std::string_view text);

std::string FormatAge(int64_t seconds);               // "3s", "12m", "5h", "4d"
std::string FormatReal(double value, int digits);     // "2.3412"; "nan" for what is no number
std::string FormatTime(int64_t seconds_since_1970);   // "2026-01-31 12:00:00Z"; "-" for 0
std::string FormatClock(int64_t seconds_since_1970);  // "12:00:00"
std::string FormatRate(double tokens_per_second);     // "12,345"

}  // namespace coat
