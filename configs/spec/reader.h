// YAML (or JSON, which is YAML) into any message of proto/coatrack/v1, by protobuf reflection.
//
// The text form: field names as in the .proto; enum words in lower case without their prefix
// (RECIPE_COAT is `coat`); google.protobuf.Duration as a number with a unit (`30m`, `1h30m`);
// google.protobuf.Timestamp as RFC 3339; maps as maps, repeated fields as sequences. A single
// scalar is not taken for a sequence. Strings may stand without quotes unless other YAML readers
// would take them for something else (`true`, `null`, `1.10`, `010`); whole numbers may.
//
// Refused, each with file:line, field path and a suggestion: unknown and duplicate keys, wrong
// types, quoted numbers, octal-looking numbers (010), numbers out of range or not finite, `<<`
// merges, anchors and aliases, tags, null values, second documents, durations without a unit, enum
// words that do not exist, text above kMaxSpecBytes, nesting above kMaxSpecDepth.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "configs/spec/violation.h"

namespace coat {

inline constexpr int64_t kMaxSpecBytes = 1024 * 1024;
inline constexpr int kMaxSpecDepth = 16;

// Where each field was written: "job.yaml:12" or "command line". Key: the field's path.
class Places {
 public:
  Places() = default;
  explicit Places(std::string file_name) : file_name_(std::move(file_name)) {}
  void Record(const std::string& field, std::string place) { places_[field] = std::move(place); }
  // The same, and for the enclosing fields that have no place yet.
  void RecordWithEnclosing(const std::string& field, const std::string& place);
  // Place of the field, of its nearest enclosing field that was written, or of the file
  // ("file:1"). Empty when no file is known.
  std::string Find(std::string_view field) const;
  // Fills `place` of every violation that has none.
  void Attach(Violations* violations) const;

 private:
  std::string file_name_;
  std::map<std::string, std::string, std::less<>> places_;
};

// Reads `text` into the cleared `message`. Every fault found is returned (at most 50); the message
// holds what could be read. `file_name` is only shown. `places` may be null.
Violations ReadYaml(std::string_view text, const std::string& file_name,
                    google::protobuf::Message* message, Places* places = nullptr);

// `--set path=value`: `value` is YAML ("8", "coat", "[a.txt, b.txt]"); `path` is a field path
// ("train.steps", "labels.team", "precision.overrides[0].recipe"; an index equal to the length
// appends). Overwrites what was there. `places` may be null.
Violations SetField(google::protobuf::Message* message, std::string_view path,
                    std::string_view value, Places* places = nullptr);
// "path=value" as it stands on a command line.
Violations SetAssignment(google::protobuf::Message* message, std::string_view assignment,
                         Places* places = nullptr);

}  // namespace coat
