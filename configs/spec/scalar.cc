#include "configs/spec/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace coat {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view WithoutSign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

bool HasLeadingZero(std::string_view digits) {
  return digits.size() > 1 && digits[0] == '0' && IsDigit(digits[1]);
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  return "'" + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "...'" : "'");
}

bool Fail(ScalarFault* fault, std::string description, std::string suggestion) {
  *fault = {std::move(description), std::move(suggestion)};
  return false;
}

bool FailLeadingZero(std::string_view text, ScalarFault* fault) {
  std::string_view digits = WithoutSign(text);
  while (HasLeadingZero(digits)) digits.remove_prefix(1);
  return Fail(fault, Quoted(text) + " has a leading zero, which some readers take for octal",
              "write " + std::string(digits));
}

// The whole number that a decimal such as 1e6 or 8.0 stands for; empty when it is none.
std::string AsWholeNumber(std::string_view text) {
  double value = 0;
  ScalarFault ignored;
  if (!ParseDouble(text, &value, &ignored) || value != std::floor(value)) return "";
  if (std::fabs(value) > 9e15) return "";
  return std::to_string(static_cast<int64_t>(value));
}

// digits [. digits] [e [sign] digits], at least one digit before the exponent.
bool IsDecimal(std::string_view text) {
  size_t i = 0, digits = 0;
  while (i < text.size() && IsDigit(text[i])) ++i, ++digits;
  if (i < text.size() && text[i] == '.') {
    ++i;
    while (i < text.size() && IsDigit(text[i])) ++i, ++digits;
  }
  if (digits == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    return AllDigits(text.substr(i));
  }
  return i == text.size();
}

}  // namespace

bool ParseInteger(std::string_view text, int64_t lowest, uint64_t highest, uint64_t* value,
                  ScalarFault* fault) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string_view digits = negative ? text.substr(1) : text;
  if (!AllDigits(digits)) {
    const std::string whole = AsWholeNumber(text);
    return Fail(fault, Quoted(text) + " is not a whole number",
                whole.empty() ? "write digits alone, such as 100" : "write " + whole);
  }
  if (HasLeadingZero(digits)) return FailLeadingZero(text, fault);
  uint64_t magnitude = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
  const uint64_t most_negative = lowest < 0 ? uint64_t{0} - static_cast<uint64_t>(lowest) : 0;
  const bool fits = result.ec == std::errc() && magnitude <= (negative ? most_negative : highest);
  if (!fits) {
    return Fail(fault, Quoted(text) + " is out of range",
                "from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  *value = negative ? uint64_t{0} - magnitude : magnitude;
  return true;
}

bool ParseDouble(std::string_view text, double* value, ScalarFault* fault) {
  const std::string_view digits = WithoutSign(text);
  const std::string lower = Lower(digits);
  if (lower == ".inf" || lower == ".nan" || lower == "inf" || lower == "nan") {
    return Fail(fault, Quoted(text) + " is not a finite number", "write a number");
  }
  if (!IsDecimal(digits)) {
    return Fail(fault, Quoted(text) + " is not a number", "write it like 0.003 or 3.0e-3");
  }
  if (HasLeadingZero(digits)) return FailLeadingZero(text, fault);
  const std::string_view readable = text[0] == '+' ? digits : text;
  const auto result = std::from_chars(readable.data(), readable.data() + readable.size(), *value);
  if (result.ec != std::errc()) {
    return Fail(fault, Quoted(text) + " is too large or too small for a double",
                "write a smaller exponent");
  }
  return true;
}

bool NeedsQuotesAsString(std::string_view text) {
  static constexpr std::array<std::string_view, 10> kWords = {"",    "~",  "null", "true", "false",
                                                              "yes", "no", "on",   "off",  "="};
  const std::string lower = Lower(text);
  if (std::find(kWords.begin(), kWords.end(), lower) != kWords.end()) return true;
  if (AllDigits(text) && !HasLeadingZero(text)) return false;
  const std::string_view digits = WithoutSign(lower);
  if (IsDecimal(digits) || digits == ".inf" || digits == ".nan") return true;
  if (digits.size() > 1 && digits[0] == '0' &&
      digits.find_first_not_of("0123456789abcdefxo_") == std::string_view::npos) {
    return true;  // other bases
  }
  // Dates, times in base sixty, digits grouped by underscores.
  return !digits.empty() && IsDigit(digits[0]) &&
         digits.find_first_not_of("0123456789:_-.") == std::string_view::npos;
}

}  // namespace coat
