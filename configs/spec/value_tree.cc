#include "configs/spec/value_tree.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "configs/base/error.h"
#include "configs/spec/words.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = ValueNode::Kind;

ValueNode Literal(std::string text) {
  return {.kind = Kind::kLiteral, .text = std::move(text), .keys = {}, .items = {}};
}
ValueNode Text(std::string text) {
  return {.kind = Kind::kText, .text = std::move(text), .keys = {}, .items = {}};
}

ValueNode Number(double value) {
  return {.kind = std::isfinite(value) ? Kind::kLiteral : Kind::kNonFinite,
          .text = FormatDouble(value),
          .keys = {},
          .items = {}};
}

// The largest unit that leaves a whole number: 90s, 30m, 2h, 1500ms.
std::string DurationText(int64_t ms) {
  static constexpr std::pair<int64_t, const char*> kUnits[] = {
      {3'600'000, "h"}, {60'000, "m"}, {1000, "s"}};
  for (const auto& [unit_ms, name] : kUnits) {
    if (ms != 0 && ms % unit_ms == 0) return std::to_string(ms / unit_ms) + name;
  }
  return ms == 0 ? "0s" : std::to_string(ms) + "ms";
}

ValueNode MessageTree(const Message& message, Zeros zeros) {
  using google::protobuf::util::TimeUtil;
  if (const auto* duration = dynamic_cast<const google::protobuf::Duration*>(&message)) {
    return Text(DurationText(TimeUtil::DurationToMilliseconds(*duration)));
  }
  if (const auto* time = dynamic_cast<const google::protobuf::Timestamp*>(&message)) {
    return Text(TimeUtil::ToString(*time));
  }
  return ToTree(message, zeros);
}

// The value of a field, or of one element of a repeated one (index >= 0).
ValueNode FieldTree(const Message& message, const FieldDescriptor& field, int index, Zeros zeros) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return Literal((one ? r.GetBool(message, &field) : r.GetRepeatedBool(message, &field, index))
                         ? "true"
                         : "false");
    case FieldDescriptor::CPPTYPE_INT32:
      return Literal(std::to_string(one ? r.GetInt32(message, &field)
                                        : r.GetRepeatedInt32(message, &field, index)));
    case FieldDescriptor::CPPTYPE_INT64:
      return Literal(std::to_string(one ? r.GetInt64(message, &field)
                                        : r.GetRepeatedInt64(message, &field, index)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return Literal(std::to_string(one ? r.GetUInt32(message, &field)
                                        : r.GetRepeatedUInt32(message, &field, index)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return Literal(std::to_string(one ? r.GetUInt64(message, &field)
                                        : r.GetRepeatedUInt64(message, &field, index)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(one ? r.GetFloat(message, &field) : r.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(one ? r.GetDouble(message, &field)
                        : r.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number =
          one ? r.GetEnumValue(message, &field) : r.GetRepeatedEnumValue(message, &field, index);
      const auto* value = field.enum_type()->FindValueByNumber(number);
      return value == nullptr ? Literal(std::to_string(number)) : Text(EnumWord(*value));
    }
    case FieldDescriptor::CPPTYPE_STRING:
      Check(field.type() != FieldDescriptor::TYPE_BYTES,
            field.full_name() + " holds bytes, which have no text form");
      return Text(one ? r.GetString(message, &field) : r.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageTree(
          one ? r.GetMessage(message, &field) : r.GetRepeatedMessage(message, &field, index),
          zeros);
  }
  return Literal("null");
}

ValueNode MapTree(const Message& message, const FieldDescriptor& field, Zeros zeros) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key_field = *field.message_type()->map_key();
  std::vector<std::pair<std::string, const Message*>> entries;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    entries.emplace_back(FieldTree(entry, key_field, -1, zeros).text, &entry);
  }
  std::sort(entries.begin(), entries.end());
  ValueNode map{.kind = Kind::kMap, .text = "", .keys = {}, .items = {}};
  for (const auto& [key, entry] : entries) {
    map.keys.push_back(key);
    map.items.push_back(FieldTree(*entry, *field.message_type()->map_value(), -1, zeros));
  }
  return map;
}

ValueNode ListTree(const Message& message, const FieldDescriptor& field, Zeros zeros) {
  ValueNode list{.kind = Kind::kList, .text = "", .keys = {}, .items = {}};
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) list.items.push_back(FieldTree(message, field, i, zeros));
  return list;
}

bool IsWritten(const Message& message, const FieldDescriptor& field, Zeros zeros) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    return zeros == Zeros::kPrint || reflection.FieldSize(message, &field) > 0;
  }
  return reflection.HasField(message, &field) || (zeros == Zeros::kPrint && !field.has_presence());
}

}  // namespace

ValueNode ToTree(const Message& message, Zeros zeros) {
  std::vector<const FieldDescriptor*> fields;
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) fields.push_back(type.field(i));
  std::sort(fields.begin(), fields.end(),
            [](const auto* a, const auto* b) { return a->number() < b->number(); });
  ValueNode tree{.kind = Kind::kMap, .text = "", .keys = {}, .items = {}};
  for (const FieldDescriptor* field : fields) {
    if (!IsWritten(message, *field, zeros)) continue;
    tree.keys.push_back(field->name());
    tree.items.push_back(field->is_map()        ? MapTree(message, *field, zeros)
                         : field->is_repeated() ? ListTree(message, *field, zeros)
                                                : FieldTree(message, *field, -1, zeros));
  }
  return tree;
}

}  // namespace coat
