#include "configs/spec/words.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace coat {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

constexpr std::string_view kZeroSuffix = "UNSPECIFIED";

std::string_view Prefix(const EnumDescriptor& type) {
  std::string_view zero = type.value(0)->name();
  if (!zero.ends_with(kZeroSuffix)) return "";
  return zero.substr(0, zero.size() - kZeroSuffix.size());
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string EnumWord(const EnumValueDescriptor& value) {
  std::string_view name = value.name();
  const std::string_view prefix = Prefix(*value.type());
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  std::string word(name);
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return word;
}

const EnumValueDescriptor* FindEnumWord(const EnumDescriptor& type, std::string_view word) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0 && EnumWord(*type.value(i)) == word) return type.value(i);
  }
  return nullptr;
}

std::vector<std::string> EnumWords(const EnumDescriptor& type) {
  std::vector<std::string> words;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) words.push_back(EnumWord(*type.value(i)));
  }
  return words;
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestCompared = 64;
  if (word.size() > kLongestCompared) return "";
  size_t best = std::max<size_t>(2, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best && distance < std::max(word.size(), candidate.size())) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string SuggestWord(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxListed = 20;
  const std::string nearest = NearestWord(word, candidates);
  if (!nearest.empty()) return "write '" + nearest + "'";
  std::string list = "known: ";
  for (size_t i = 0; i < std::min(candidates.size(), kMaxListed); ++i) {
    list += (i == 0 ? "" : ", ") + candidates[i];
  }
  return candidates.size() > kMaxListed ? list + ", ..." : list;
}

std::string FormatDouble(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find('.') != std::string::npos) return text;
  const size_t exponent = text.find('e');
  return exponent == std::string::npos ? text + ".0" : text.insert(exponent, ".0");
}

}  // namespace coat
