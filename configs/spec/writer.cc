#include "configs/spec/writer.h"

#include <algorithm>

#include "configs/spec/scalar.h"
#include "configs/spec/value_tree.h"

namespace coat {
namespace {

using Kind = ValueNode::Kind;

// JSON's form of a text; YAML reads it the same.
std::string Quote(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/' || c == '*';
}

// Without quotes where every YAML reader agrees that it is a text.
std::string YamlText(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), IsWordCharacter) &&
                     IsWordCharacter(text[0]) && text[0] != '-' && text[0] != '*' &&
                     text[0] != '.' && !(text[0] >= '0' && text[0] <= '9') &&
                     !NeedsQuotesAsString(text);
  // Durations ("30m") begin with a digit and need no quotes.
  const bool duration = !text.empty() && text[0] >= '1' && text[0] <= '9' &&
                        (text.back() == 's' || text.back() == 'm' || text.back() == 'h') &&
                        text.find_first_not_of("0123456789") >= text.size() - 2;
  return plain || duration ? text : Quote(text);
}

std::string Scalar(const ValueNode& node) {
  return node.kind == Kind::kText ? YamlText(node.text) : node.text;
}

bool IsBlock(const ValueNode& node) {
  if (node.items.empty()) return false;
  return node.kind == Kind::kMap || (node.kind == Kind::kList && node.items[0].kind == Kind::kMap);
}

std::string Inline(const ValueNode& node) {
  if (node.kind == Kind::kMap) return "{}";
  if (node.kind != Kind::kList) return Scalar(node);
  std::string text = "[";
  for (size_t i = 0; i < node.items.size(); ++i) {
    text += (i == 0 ? "" : ", ") + Scalar(node.items[i]);
  }
  return text + "]";
}

void AppendYaml(const ValueNode& node, int indent, std::string* out) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  for (size_t i = 0; i < node.items.size(); ++i) {
    const ValueNode& item = node.items[i];
    if (node.kind == Kind::kList) {
      std::string block;
      AppendYaml(item, indent + 2, &block);
      if (block.empty()) block = margin + "  {}\n";
      *out += margin + "- " + block.substr(margin.size() + 2);
      continue;
    }
    *out += margin + YamlText(node.keys[i]) + ":";
    if (IsBlock(item)) {
      *out += '\n';
      AppendYaml(item, indent + 2, out);
    } else {
      *out += " " + Inline(item) + "\n";
    }
  }
}

void AppendJson(const ValueNode& node, JsonStyle style, int indent, std::string* out) {
  switch (node.kind) {
    case Kind::kLiteral: *out += node.text; return;
    case Kind::kText: *out += Quote(node.text); return;
    case Kind::kNonFinite: *out += "null"; return;
    case Kind::kList:
    case Kind::kMap: break;
  }
  const bool map = node.kind == Kind::kMap;
  const bool indented = style == JsonStyle::kIndented && !node.items.empty();
  *out += map ? '{' : '[';
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) *out += ',';
    if (indented) *out += '\n' + std::string(static_cast<size_t>(indent) + 2, ' ');
    if (map) *out += Quote(node.keys[i]) + (indented ? ": " : ":");
    AppendJson(node.items[i], style, indent + 2, out);
  }
  if (indented) *out += '\n' + std::string(static_cast<size_t>(indent), ' ');
  *out += map ? '}' : ']';
}

}  // namespace

std::string ToYaml(const google::protobuf::Message& message, Zeros zeros) {
  const ValueNode tree = ToTree(message, zeros);
  std::string text;
  AppendYaml(tree, 0, &text);
  return text.empty() ? "{}\n" : text;
}

std::string ToJson(const google::protobuf::Message& message, JsonStyle style, Zeros zeros) {
  std::string text;
  AppendJson(ToTree(message, zeros), style, 0, &text);
  return text;
}

std::string CanonicalText(const google::protobuf::Message& message) {
  return ToJson(message, JsonStyle::kCompact);
}

}  // namespace coat
