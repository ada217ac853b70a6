#include "configs/spec/reader.h"

#include "configs/spec/field_reader.h"

namespace coat {
namespace {

// "a.b[2].c" -> "a.b[2]" -> "a.b" -> "a" -> "".
std::string_view EnclosingPath(std::string_view path) {
  const size_t end = path.find_last_of(".[");
  return end == std::string_view::npos ? std::string_view() : path.substr(0, end);
}

}  // namespace

std::string Places::Find(std::string_view field) const {
  for (std::string_view path = field; !path.empty(); path = EnclosingPath(path)) {
    const auto found = places_.find(path);
    if (found != places_.end()) return found->second;
  }
  return PlaceOf(file_name_, 1);
}

void Places::RecordWithEnclosing(const std::string& field, const std::string& place) {
  Record(field, place);
  for (std::string_view path = EnclosingPath(field); !path.empty(); path = EnclosingPath(path)) {
    places_.try_emplace(std::string(path), place);
  }
}

void Places::Attach(Violations* violations) const {
  for (Violation& violation : *violations) {
    if (violation.place.empty()) violation.place = Find(violation.field);
  }
}

Violations ReadYaml(std::string_view text, const std::string& file_name,
                    google::protobuf::Message* message, Places* places) {
  message->Clear();
  if (places != nullptr) *places = Places(file_name);
  const TextTree tree = ParseText(text, file_name);
  if (!tree.faults.empty()) return tree.faults;
  FieldReader reader(file_name, places);
  if (tree.root.kind == TextNode::Kind::kNull) {
    reader.Fault(tree.root.line, "", "is empty", "write at least one field, such as api_version");
    return reader.violations();
  }
  reader.ReadMessage(tree.root, "", message);
  return reader.violations();
}

}  // namespace coat
