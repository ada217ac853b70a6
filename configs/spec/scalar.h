// Text of a YAML scalar as a number, stricter than YAML: nothing reads as something else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace coat {

// Why a text is not the wanted number, and what to write.
struct ScalarFault {
  std::string description;
  std::string suggestion;
};

// "0", "-17", "1200": no leading zeros, no other base, no exponent. The range is [lowest, highest]
// with the latter unsigned, so that uint64 fits. Returns whether `value` (two's complement) is set.
bool ParseInteger(std::string_view text, int64_t lowest, uint64_t highest, uint64_t* value,
                  ScalarFault* fault);

// Decimal notation with optional fraction and exponent; finite.
bool ParseDouble(std::string_view text, double* value, ScalarFault* fault);

// Whether a text without quotes would be a number, a truth value or nothing to some YAML reader.
// Whole numbers as ParseInteger reads them do not count: their text is the same everywhere.
bool NeedsQuotesAsString(std::string_view text);

}  // namespace coat
