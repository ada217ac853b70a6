// A YAML text as a tree with line numbers, before it meets a schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "configs/spec/violation.h"

namespace coat {

struct TextNode {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  int line = 1;                 // from 1
  bool quoted = false;          // scalars
  std::string text;             // scalars
  std::vector<TextNode> items;  // of a sequence; of a map: key, value, key, value, ...
};

// Exactly one document. Refused: what reader.h lists under the text's syntax. Never throws.
struct TextTree {
  TextNode root;
  Violations faults;  // empty: root is complete; places are set
};
TextTree ParseText(std::string_view text, const std::string& file_name);

std::string PlaceOf(const std::string& file_name, int line);  // "job.yaml:12", "" without a name

}  // namespace coat
