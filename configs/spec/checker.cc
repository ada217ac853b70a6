#include "configs/spec/checker.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "configs/spec/field_reader.h"
#include "configs/spec/validate.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMaxNameLength = 63;

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsAlphanumeric(char c) { return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z'); }

bool IsLabelText(std::string_view text, std::string_view also) {
  if (text.size() > kMaxNameLength || text.empty()) return false;
  const auto allowed = [&](char c) {
    return IsAlphanumeric(c) || also.find(c) != std::string_view::npos;
  };
  return IsAlphanumeric(text.front()) && IsAlphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(), allowed);
}

double NumberOf(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(reflection.GetUInt64(message, &field));
    default: return reflection.GetDouble(message, &field);
  }
}

std::string Show(const FieldDescriptor& field, double value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) return FormatDouble(value);
  return std::to_string(static_cast<int64_t>(value));
}

std::string RangeText(const FieldDescriptor& field, const NumberRule& rule) {
  const char* from = rule.lowest_is == NumberRule::Lowest::kExcluded ? "above " : "from ";
  return from + Show(field, rule.lowest) + " to " + Show(field, rule.highest);
}

}  // namespace

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameLength) return false;
  const auto allowed = [](char c) { return IsLowerOrDigit(c) || c == '-' || c == '.'; };
  return IsLowerOrDigit(text.front()) && IsLowerOrDigit(text.back()) &&
         std::all_of(text.begin(), text.end(), allowed);
}

void Checker::Fault(std::string field, std::string description, std::string suggestion) {
  violations_.push_back({.field = std::move(field),
                         .description = std::move(description),
                         .suggestion = std::move(suggestion),
                         .place = ""});
}

bool Checker::Require(bool holds, std::string field, std::string description,
                      std::string suggestion) {
  if (!holds) Fault(std::move(field), std::move(description), std::move(suggestion));
  return holds;
}

bool Checker::Clean(std::string_view field) const {
  return std::none_of(violations_.begin(), violations_.end(), [&](const Violation& violation) {
    return std::string_view(violation.field).starts_with(field);
  });
}

void Checker::Number(const Message& root, const NumberRule& rule) {
  const Message* message = &root;
  std::string_view path = rule.field;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const auto* field = message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    message = &message->GetReflection()->GetMessage(*message, field);
    path.remove_prefix(dot + 1);
  }
  const FieldDescriptor& field = *message->GetDescriptor()->FindFieldByName(std::string(path));
  if (!message->GetReflection()->HasField(*message, &field)) {
    Require(rule.presence == NumberRule::Presence::kOptional, rule.field, "is required",
            "write a number " + RangeText(field, rule));
    return;
  }
  const double value = NumberOf(*message, field);
  const bool above =
      rule.lowest_is == NumberRule::Lowest::kExcluded ? value > rule.lowest : value >= rule.lowest;
  Require(above && value <= rule.highest, rule.field, "is " + Show(field, value),
          "write a number " + RangeText(field, rule));
}

void Checker::Enums(const Message& message, const std::string& path) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string field_path = JoinPath(path, field->name());
    if (field->is_map()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        Enums(reflection.GetMessage(message, field), field_path);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Enums(reflection.GetRepeatedMessage(message, field, i),
              field_path + "[" + std::to_string(i) + "]");
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !field->is_repeated()) {
      const int number = reflection.GetEnumValue(message, field);
      const bool known = number != 0 && field->enum_type()->FindValueByNumber(number) != nullptr;
      Require(known, field_path, "has the unknown value " + std::to_string(number),
              SuggestWord("", EnumWords(*field->enum_type())));
    }
  }
}

void Checker::Labels(const google::protobuf::Map<std::string, std::string>& labels,
                     const std::string& field) {
  Require(labels.size() <= static_cast<size_t>(kMaxLabels), field,
          "has " + std::to_string(labels.size()) + " entries",
          "keep at most " + std::to_string(kMaxLabels));
  const std::map<std::string, std::string> in_order(labels.begin(), labels.end());
  for (const auto& [key, value] : in_order) {
    const std::string path = field + "." + key.substr(0, kMaxNameLength);
    Require(IsLabelText(key, "-_./"), path, "is not a label's name",
            "use at most 63 letters, digits and -_./ with a letter or digit at both ends");
    Require(value.empty() || IsLabelText(value, "-_.:/ "), path,
            "has a value that a label cannot hold",
            "use at most 63 letters, digits, spaces and -_.:/ with a letter or digit at both ends");
  }
}

void Checker::RelativePath(const std::string& path, const std::string& field) {
  constexpr size_t kMaxPathBytes = 4096;
  if (!Require(!path.empty() && path.size() <= kMaxPathBytes, field,
               path.empty() ? "is empty" : "is longer than 4096 bytes",
               "write a path relative to the worker's data_root")) {
    return;
  }
  Require(path[0] != '/' && path[0] != '~', field, "'" + path + "' is not relative",
          "write it relative to the worker's data_root");
  const bool has_control =
      std::any_of(path.begin(), path.end(), [](char c) { return c >= 0 && c < 0x20; });
  Require(!has_control, field, "holds a control character", "remove it");
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (!Require(path.substr(start, end - start) != "..", field,
                 "'" + path + "' leaves the data_root by '..'",
                 "write a path below the worker's data_root")) {
      return;
    }
    start = end + 1;
  }
}

void Checker::Address(const std::string& address, const std::string& field) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos && colon > 0) {
    const char* end = address.data() + address.size();
    const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
    if (parsed.ec != std::errc() || parsed.ptr != end) port = -1;
  }
  Require(port >= 0 && port <= 65535, field, "'" + address + "' is not an address",
          "write host:port, such as 127.0.0.1:7070");
}

}  // namespace coat
