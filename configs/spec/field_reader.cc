#include "configs/spec/field_reader.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "configs/base/units.h"
#include "configs/spec/field_value.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = TextNode::Kind;

constexpr size_t kMaxViolations = 50;

// Where a field of this name stands one level down, or the nearest name of this level.
std::string SuggestField(const Descriptor& type, const std::string& name) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || field.message_type() == nullptr) continue;
    if (IsWellKnownScalar(*field.message_type())) continue;
    if (field.message_type()->FindFieldByName(name) != nullptr) {
      return "write it below '" + field.name() + "'";
    }
  }
  return SuggestWord(name, FieldNames(type));
}

std::string Describe(const TextNode& node) {
  switch (node.kind) {
    case Kind::kNull: return "nothing";
    case Kind::kSequence: return "a list";
    case Kind::kMap: return "a map";
    case Kind::kScalar: break;
  }
  return "'" + node.text.substr(0, 40) + "'";
}

Message* MutableMessage(const FieldDescriptor& field, int index, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  return index < 0 ? reflection.MutableMessage(message, &field)
                   : reflection.MutableRepeatedMessage(message, &field, index);
}

// Appends an element with the type's zero value.
void AppendElement(const FieldDescriptor& field, Message* message) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    message->GetReflection()->AddMessage(message, &field);
  } else {
    AddZero(field, message);
  }
}

// Index of the map entry with this key, or the number of entries.
int FindEntry(const std::string& key, const FieldDescriptor& field, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key_field = *field.message_type()->map_key();
  const int size = reflection.FieldSize(message, &field);
  for (int i = 0; i < size; ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    if (entry.GetReflection()->GetString(entry, &key_field) == key) return i;
  }
  return size;
}

}  // namespace

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string JoinPath(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

bool IsWellKnownScalar(const Descriptor& type) {
  return type.full_name() == "google.protobuf.Duration" ||
         type.full_name() == "google.protobuf.Timestamp";
}

std::string FieldReader::PlaceOfLine(int line) const {
  return fixed_place_.empty() ? PlaceOf(file_name_, line) : fixed_place_;
}

void FieldReader::Record(const std::string& path, int line) {
  if (places_ != nullptr) places_->Record(path, PlaceOfLine(line));
}

void FieldReader::Fault(int line, const std::string& path, std::string description,
                        std::string suggestion) {
  if (violations_.size() >= kMaxViolations) return;
  violations_.push_back({.field = path,
                         .description = std::move(description),
                         .suggestion = std::move(suggestion),
                         .place = PlaceOfLine(line)});
}

bool FieldReader::Expect(const TextNode& node, Kind kind, const std::string& path,
                         const std::string& wanted) {
  if (node.kind == kind) return true;
  if (node.kind == Kind::kNull) {
    Fault(node.line, path, "has no value", "write " + wanted + ", or remove the key");
  } else {
    Fault(node.line, path, "is " + Describe(node) + ", not " + wanted, "write " + wanted);
  }
  return false;
}

std::string FieldReader::KeyOf(const TextNode& key, const std::string& path, Keys* seen) {
  if (key.kind != Kind::kScalar || key.text.empty()) {
    Fault(key.line, path, "holds a key that is " + Describe(key), "write a name as the key");
    return "";
  }
  if (key.text == "<<" && !key.quoted) {
    Fault(key.line, path, "merges another map by '<<'", "write the fields out");
    return "";
  }
  if (std::find(seen->begin(), seen->end(), key.text) != seen->end()) {
    Fault(key.line, JoinPath(path, key.text), "is written twice", "keep one of the two");
    return "";
  }
  seen->push_back(key.text);
  return key.text;
}

void FieldReader::ReadMessage(const TextNode& node, const std::string& path, Message* message) {
  if (!Expect(node, Kind::kMap, path, "a map of fields")) return;
  const Descriptor& type = *message->GetDescriptor();
  Keys seen;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const TextNode& key = node.items[i];
    const std::string name = KeyOf(key, path, &seen);
    if (name.empty()) continue;
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) {
      Fault(key.line, JoinPath(path, name.substr(0, 80)), "is not a field",
            SuggestField(type, name));
      continue;
    }
    Record(JoinPath(path, name), key.line);
    ReadField(node.items[i + 1], JoinPath(path, name), *field, message);
  }
}

void FieldReader::ReadField(const TextNode& node, const std::string& path,
                            const FieldDescriptor& field, Message* message) {
  message->GetReflection()->ClearField(message, &field);
  if (field.is_map()) {
    ReadMap(node, path, field, message);
  } else if (field.is_repeated()) {
    if (!Expect(node, Kind::kSequence, path, "a list such as [a, b]")) return;
    for (size_t i = 0; i < node.items.size(); ++i) {
      ReadElement(node.items[i], path, static_cast<int>(i), field, message);
    }
  } else {
    ReadValue(node, path, -1, field, message);
  }
}

void FieldReader::ReadElement(const TextNode& node, const std::string& path, int index,
                              const FieldDescriptor& field, Message* message) {
  const std::string element_path = path + "[" + std::to_string(index) + "]";
  Record(element_path, node.line);
  // A refused element is added all the same, so that the indices of later ones stay right.
  if (index == message->GetReflection()->FieldSize(*message, &field)) {
    AppendElement(field, message);
  }
  ReadValue(node, element_path, index, field, message);
}

void FieldReader::ReadMap(const TextNode& node, const std::string& path,
                          const FieldDescriptor& field, Message* message) {
  if (!Expect(node, Kind::kMap, path, "a map such as {key: value}")) return;
  Keys seen;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const TextNode& key = node.items[i];
    const std::string name = KeyOf(key, path, &seen);
    if (!name.empty()) ReadMapEntry(name, key.line, node.items[i + 1], path, field, message);
  }
}

void FieldReader::ReadMapEntry(const std::string& key, int key_line, const TextNode& value,
                               const std::string& path, const FieldDescriptor& field,
                               Message* message) {
  const FieldDescriptor& key_field = *field.message_type()->map_key();
  const std::string entry_path = JoinPath(path, key);
  if (key_field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    Fault(key_line, path, "is a map whose keys are not texts", "it cannot be written here");
    return;
  }
  Record(entry_path, key_line);
  const int index = FindEntry(key, field, *message);
  const Reflection& reflection = *message->GetReflection();
  Message* entry = index == reflection.FieldSize(*message, &field)
                       ? reflection.AddMessage(message, &field)
                       : reflection.MutableRepeatedMessage(message, &field, index);
  entry->GetReflection()->SetString(entry, &key_field, key);
  ReadValue(value, entry_path, -1, *field.message_type()->map_value(), entry);
}

void FieldReader::ReadValue(const TextNode& node, const std::string& path, int index,
                            const FieldDescriptor& field, Message* message) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    ReadScalar(node, path, index, field, message);
    return;
  }
  Message* value = MutableMessage(field, index, message);
  value->Clear();
  if (IsWellKnownScalar(*field.message_type())) {
    ReadWellKnown(node, path, value);
  } else {
    ReadMessage(node, path, value);
  }
}

void FieldReader::ReadWellKnown(const TextNode& node, const std::string& path, Message* message) {
  if (auto* duration = dynamic_cast<google::protobuf::Duration*>(message)) {
    if (!Expect(node, Kind::kScalar, path, "a duration such as 30m")) return;
    const Result<int64_t> ms = ParseDurationMs(node.text);
    if (!ms.ok()) {
      const bool bare =
          !node.text.empty() && node.text.find_first_not_of("0123456789.") == std::string::npos;
      Fault(node.line, path, Describe(node) + (bare ? " has no unit" : " is not a duration"),
            bare ? "write " + node.text + "s or " + node.text + "m"
                 : "write a number and a unit, such as 30s, 15m or 1h30m");
      return;
    }
    *duration = google::protobuf::util::TimeUtil::MillisecondsToDuration(*ms);
    return;
  }
  auto* timestamp = dynamic_cast<google::protobuf::Timestamp*>(message);
  if (!Expect(node, Kind::kScalar, path, "a time such as 2026-01-31T12:00:00Z")) return;
  if (!google::protobuf::util::TimeUtil::FromString(node.text, timestamp)) {
    Fault(node.line, path, Describe(node) + " is not a time", "write it like 2026-01-31T12:00:00Z");
  }
}

void FieldReader::ReadScalar(const TextNode& node, const std::string& path, int index,
                             const FieldDescriptor& field, Message* message) {
  if (!Expect(node, Kind::kScalar, path, WantedScalar(field))) return;
  ScalarFault fault;
  if (!SetScalar(node, field, index, message, &fault)) {
    Fault(node.line, path, std::move(fault.description), std::move(fault.suggestion));
  }
}

}  // namespace coat
