// A message as the tree of what the writer prints; both notations print this one tree.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <vector>

namespace coat {

struct ValueNode {
  enum class Kind : uint8_t { kLiteral, kText, kNonFinite, kList, kMap };
  Kind kind = Kind::kLiteral;
  std::string text;               // literals (numbers, true, false), texts, ".nan"
  std::vector<std::string> keys;  // of a map, one an item
  std::vector<ValueNode> items;   // of a list or map
};

enum class Zeros : uint8_t;

// Fields in the order of their numbers, map keys in byte order.
ValueNode ToTree(const google::protobuf::Message& message, Zeros zeros);

}  // namespace coat
