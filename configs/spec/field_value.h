// One scalar of a text into one scalar field.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "configs/spec/scalar.h"
#include "configs/spec/text_tree.h"

namespace coat {

// "a whole number", "true or false", "one of bf16, fp8, coat", ...
std::string WantedScalar(const google::protobuf::FieldDescriptor& field);

// Sets a singular field (index < 0) or an existing element from a scalar node. Returns false and
// fills `fault` when the text is not of the field's type; the field is then as before.
bool SetScalar(const TextNode& node, const google::protobuf::FieldDescriptor& field, int index,
               google::protobuf::Message* message, ScalarFault* fault);

// Appends a zero to a repeated field of scalars.
void AddZero(const google::protobuf::FieldDescriptor& field, google::protobuf::Message* message);

}  // namespace coat
