#include <charconv>
#include <utility>

#include "configs/spec/field_reader.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Follows a path through messages and puts the value at its end.
class PathSetter {
 public:
  PathSetter(FieldReader* reader, const TextNode& value) : reader_(reader), value_(value) {}

  // `done` is the part of the path already followed, `rest` what leads on from `message`.
  void Set(const std::string& done, std::string_view rest, Message* message) {
    const size_t end = rest.find_first_of(".[");
    const std::string name(rest.substr(0, end));
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    const std::string path = JoinPath(done, name);
    if (field == nullptr) {
      reader_->Fault(1, path, "is not a field",
                     SuggestWord(name, FieldNames(*message->GetDescriptor())));
      return;
    }
    if (end == std::string_view::npos) {
      reader_->ReadField(value_, path, *field, message);
      return;
    }
    const std::string_view tail = rest.substr(end + 1);
    if (rest[end] == '[') {
      SetIndexed(path, *field, tail, message);
    } else if (field->is_map() && !tail.empty()) {
      reader_->ReadMapEntry(std::string(tail), 1, value_, path, *field, message);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated() ||
               IsWellKnownScalar(*field->message_type())) {
      reader_->Fault(1, path, "has no fields of its own", "end the path here");
    } else {
      Set(path, tail, message->GetReflection()->MutableMessage(message, field));
    }
  }

 private:
  // `tail` is "2]" or "2].name".
  void SetIndexed(const std::string& path, const FieldDescriptor& field, std::string_view tail,
                  Message* message) {
    if (!field.is_repeated() || field.is_map()) {
      reader_->Fault(1, path, "is not a list", "remove the index");
      return;
    }
    const int size = message->GetReflection()->FieldSize(*message, &field);
    int index = -1;
    const auto parsed = std::from_chars(tail.data(), tail.data() + tail.size(), index);
    const size_t after = static_cast<size_t>(parsed.ptr - tail.data());
    if (parsed.ec != std::errc() || after >= tail.size() || tail[after] != ']' || index < 0 ||
        index > size) {
      reader_->Fault(
          1, path, "has " + std::to_string(size) + " elements",
          "write an index from 0 to " + std::to_string(size) + ", as in " + path + "[0]");
      return;
    }
    const std::string_view rest = tail.substr(after + 1);
    if (rest.empty()) {
      reader_->ReadElement(value_, path, index, field, message);
      return;
    }
    if (rest[0] != '.' || field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      reader_->Fault(1, path, "cannot be followed by '" + std::string(rest) + "'",
                     "end the path after the index");
      return;
    }
    const auto& reflection = *message->GetReflection();
    Message* element = index == size ? reflection.AddMessage(message, &field)
                                     : reflection.MutableRepeatedMessage(message, &field, index);
    Set(path + "[" + std::to_string(index) + "]", rest.substr(1), element);
  }

  FieldReader* reader_;
  const TextNode& value_;
};

}  // namespace

Violations SetField(Message* message, std::string_view path, std::string_view value,
                    Places* places) {
  const std::string place = "command line";
  TextTree tree = ParseText(value, place);
  if (!tree.faults.empty()) {
    for (Violation& fault : tree.faults) fault.place = place;
    return tree.faults;
  }
  FieldReader reader("", places);
  reader.set_fixed_place(place);
  PathSetter(&reader, tree.root).Set("", path, message);
  if (reader.violations().empty() && places != nullptr) {
    places->RecordWithEnclosing(std::string(path), place);
  }
  return reader.violations();
}

Violations SetAssignment(Message* message, std::string_view assignment, Places* places) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return {{.field = "",
             .description = "'" + std::string(assignment) + "' is not path=value",
             .suggestion = "write it like train.steps=100",
             .place = "command line"}};
  }
  return SetField(message, assignment.substr(0, equals), assignment.substr(equals + 1), places);
}

}  // namespace coat
