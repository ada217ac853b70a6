// A text tree into a message's fields by reflection; shared by ReadYaml and SetField.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "configs/spec/reader.h"
#include "configs/spec/text_tree.h"

namespace coat {

class FieldReader {
 public:
  // `places` may be null. With an empty file name, `fixed_place` is the place of everything.
  FieldReader(std::string file_name, Places* places)
      : file_name_(std::move(file_name)), places_(places) {}

  // Sets the place of all that is read from now on, instead of file:line.
  void set_fixed_place(std::string place) { fixed_place_ = std::move(place); }

  // `path` is the message's own path, empty at the root.
  void ReadMessage(const TextNode& node, const std::string& path,
                   google::protobuf::Message* message);
  // Replaces the field's value, or adds to it where a repeated field is read element by element.
  void ReadField(const TextNode& node, const std::string& path,
                 const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message* message);
  // One element of a repeated field: replaces element `index`, or appends when it is the size.
  void ReadElement(const TextNode& node, const std::string& path, int index,
                   const google::protobuf::FieldDescriptor& field,
                   google::protobuf::Message* message);
  // The entry of a map field with this key.
  void ReadMapEntry(const std::string& key, int key_line, const TextNode& value,
                    const std::string& path, const google::protobuf::FieldDescriptor& field,
                    google::protobuf::Message* message);

  void Fault(int line, const std::string& path, std::string description, std::string suggestion);
  const Violations& violations() const { return violations_; }

 private:
  using Keys = std::vector<std::string>;

  void ReadMap(const TextNode& node, const std::string& path,
               const google::protobuf::FieldDescriptor& field, google::protobuf::Message* message);
  // The value of a singular field or, with index >= 0, of an existing element.
  void ReadValue(const TextNode& node, const std::string& path, int index,
                 const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message* message);
  void ReadScalar(const TextNode& node, const std::string& path, int index,
                  const google::protobuf::FieldDescriptor& field,
                  google::protobuf::Message* message);
  void ReadWellKnown(const TextNode& node, const std::string& path,
                     google::protobuf::Message* message);
  // Checks and returns a map's key; empty after a fault.
  std::string KeyOf(const TextNode& key, const std::string& path, Keys* seen);
  bool Expect(const TextNode& node, TextNode::Kind kind, const std::string& path,
              const std::string& wanted);
  std::string PlaceOfLine(int line) const;
  void Record(const std::string& path, int line);

  std::string file_name_;
  std::string fixed_place_;
  Places* places_;
  Violations violations_;
};

// Names of a message's fields, in the order of the schema.
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);
// "train" + "steps" -> "train.steps"; "" + "steps" -> "steps".
std::string JoinPath(const std::string& path, const std::string& name);
// Whether the message is written as one scalar (Duration, Timestamp).
bool IsWellKnownScalar(const google::protobuf::Descriptor& type);

}  // namespace coat
