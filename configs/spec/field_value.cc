#include "configs/spec/field_value.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "configs/base/error.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename T>
using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, T) const;
template <typename T>
using ElementSetter = void (Reflection::*)(Message*, const FieldDescriptor*, int, T) const;

// Where a value goes: a field, or one element of it.
struct Target {
  Message* message;
  const FieldDescriptor& field;
  int index;

  template <typename T>
  bool Set(Setter<T> set, ElementSetter<T> set_element, T value) const {
    const Reflection& reflection = *message->GetReflection();
    if (index < 0) {
      (reflection.*set)(message, &field, std::move(value));
    } else {
      (reflection.*set_element)(message, &field, index, std::move(value));
    }
    return true;
  }
};

bool Fail(ScalarFault* fault, std::string description, std::string suggestion) {
  *fault = {std::move(description), std::move(suggestion)};
  return false;
}

template <typename T>
bool ParseAs(const std::string& text, T* value, ScalarFault* fault) {
  uint64_t bits = 0;
  if (!ParseInteger(text, static_cast<int64_t>(std::numeric_limits<T>::min()),
                    static_cast<uint64_t>(std::numeric_limits<T>::max()), &bits, fault)) {
    return false;
  }
  *value = static_cast<T>(bits);
  return true;
}

bool SetNumber(const std::string& text, const Target& target, ScalarFault* fault) {
  switch (target.field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      return ParseAs(text, &value, fault) &&
             target.Set(&Reflection::SetInt32, &Reflection::SetRepeatedInt32, value);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      return ParseAs(text, &value, fault) &&
             target.Set(&Reflection::SetInt64, &Reflection::SetRepeatedInt64, value);
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      return ParseAs(text, &value, fault) &&
             target.Set(&Reflection::SetUInt32, &Reflection::SetRepeatedUInt32, value);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      return ParseAs(text, &value, fault) &&
             target.Set(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64, value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      double value = 0;
      return ParseDouble(text, &value, fault) &&
             target.Set(&Reflection::SetFloat, &Reflection::SetRepeatedFloat,
                        static_cast<float>(value));
    }
    default: {
      double value = 0;
      return ParseDouble(text, &value, fault) &&
             target.Set(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, value);
    }
  }
}

bool SetBool(const TextNode& node, const Target& target, ScalarFault* fault) {
  if (node.quoted || (node.text != "true" && node.text != "false")) {
    return Fail(fault, "is '" + node.text.substr(0, 40) + "', not true or false",
                "write true or false, without quotes");
  }
  return target.Set(&Reflection::SetBool, &Reflection::SetRepeatedBool, node.text == "true");
}

bool SetEnum(const TextNode& node, const Target& target, ScalarFault* fault) {
  const auto& type = *target.field.enum_type();
  const auto* value = FindEnumWord(type, node.text);
  if (value == nullptr) {
    return Fail(fault, "'" + node.text.substr(0, 40) + "' is not known",
                SuggestWord(node.text, EnumWords(type)));
  }
  return target.Set(&Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue, value->number());
}

bool SetText(const TextNode& node, const Target& target, ScalarFault* fault) {
  if (!node.quoted && NeedsQuotesAsString(node.text)) {
    return Fail(fault,
                "'" + node.text.substr(0, 40) + "' without quotes is not a text to all readers",
                "write \"" + node.text.substr(0, 40) + "\"");
  }
  return target.Set(&Reflection::SetString, &Reflection::SetRepeatedString, node.text);
}

}  // namespace

std::string WantedScalar(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: return "a text";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: return "a number";
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::string words = "one of";
      for (const std::string& word : EnumWords(*field.enum_type())) words += " " + word;
      return words;
    }
    default: return "a whole number";
  }
}

bool SetScalar(const TextNode& node, const FieldDescriptor& field, int index, Message* message,
               ScalarFault* fault) {
  const Target target{message, field, index};
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return SetBool(node, target, fault);
    case FieldDescriptor::CPPTYPE_ENUM: return SetEnum(node, target, fault);
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() == FieldDescriptor::TYPE_BYTES) {
        return Fail(fault, "holds bytes", "it cannot be written as text");
      }
      return SetText(node, target, fault);
    default: break;
  }
  if (node.quoted) {
    return Fail(fault, "is the text \"" + node.text.substr(0, 40) + "\", not a number",
                "remove the quotes");
  }
  return SetNumber(node.text, target, fault);
}

void AddZero(const FieldDescriptor& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: reflection.AddBool(message, &field, false); break;
    case FieldDescriptor::CPPTYPE_ENUM: reflection.AddEnumValue(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_STRING: reflection.AddString(message, &field, ""); break;
    case FieldDescriptor::CPPTYPE_INT32: reflection.AddInt32(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_INT64: reflection.AddInt64(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_UINT32: reflection.AddUInt32(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_UINT64: reflection.AddUInt64(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_FLOAT: reflection.AddFloat(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: reflection.AddDouble(message, &field, 0); break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      throw Error(Code::kInternal, "AddZero: " + field.full_name() + " is not a scalar");
  }
}

}  // namespace coat
