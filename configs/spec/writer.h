// The one canonical writer of every message of proto/coatrack/v1: fields in the order of their
// numbers, maps by key, enum words in lower case without prefix, numbers as numbers, durations as
// 30m. What it prints reads back equal (reader.h); equal messages print equal text.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "configs/spec/words.h"

namespace coat {

enum class JsonStyle : uint8_t { kIndented, kCompact };

// Whether fields without presence are written when they are zero or empty. kPrint is for answers
// of programs, so that their keys are always there.
enum class Zeros : uint8_t { kOmit, kPrint };

// YAML ends with a line break, JSON does not. A number that is not finite is `null` in JSON and
// `.nan` or `.inf` in YAML (the reader takes neither).
// Errors: throws Error(kInternal) for a field of type bytes, which has no text form.
std::string ToYaml(const google::protobuf::Message& message, Zeros zeros = Zeros::kOmit);
std::string ToJson(const google::protobuf::Message& message, JsonStyle style = JsonStyle::kIndented,
                   Zeros zeros = Zeros::kOmit);

// The text whose SHA-256 says whether two submitted specs are the same: compact canonical JSON.
std::string CanonicalText(const google::protobuf::Message& message);

}  // namespace coat
