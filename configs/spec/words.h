// Words of enums and numbers in text.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <string>
#include <string_view>
#include <vector>

namespace coat {

// "coat" for RECIPE_COAT: lower case, without the prefix that the zero value shows.
std::string EnumWord(const google::protobuf::EnumValueDescriptor& value);
// The same for a value of a generated enum; the number for a value that the schema lacks.
template <typename Enum>
std::string EnumWord(Enum value) {
  const auto* found = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return found == nullptr ? std::to_string(static_cast<int>(value)) : EnumWord(*found);
}
// Null when there is none. The zero value (`unspecified`) is not found.
const google::protobuf::EnumValueDescriptor* FindEnumWord(
    const google::protobuf::EnumDescriptor& type, std::string_view word);
// All words but `unspecified`, in the order of the schema.
std::vector<std::string> EnumWords(const google::protobuf::EnumDescriptor& type);

// The candidate with the least edit distance (a swap of neighbours counts one); empty when all
// are further than a third of the word's length (at least 2).
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);
// "write 'steps'" when a near word exists, else "known: a, b, c" (at most 20).
std::string SuggestWord(std::string_view word, const std::vector<std::string>& candidates);

// Shortest decimal that reads back as the same double, always with a point ("3.0", "1.0e-08").
std::string FormatDouble(double value);

}  // namespace coat
