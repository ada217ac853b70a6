// Collects the violations of one message; ranges are looked up by field path.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "configs/spec/violation.h"

namespace coat {

// A number that must lie in [lowest, highest], or in (lowest, highest] when `above_lowest`.
struct NumberRule {
  enum class Presence : uint8_t { kOptional, kRequired };
  enum class Lowest : uint8_t { kAllowed, kExcluded };
  const char* field;
  double lowest;
  double highest;
  Presence presence = Presence::kOptional;
  Lowest lowest_is = Lowest::kAllowed;
};

class Checker {
 public:
  void Fault(std::string field, std::string description, std::string suggestion);
  // Adds a fault unless `holds`; returns `holds`.
  bool Require(bool holds, std::string field, std::string description, std::string suggestion);

  // Whole numbers and doubles that are set lie in their range; required ones are set.
  template <size_t n>
  void Numbers(const google::protobuf::Message& root, const NumberRule (&rules)[n]) {
    for (const NumberRule& rule : rules) Number(root, rule);
  }
  // Every enum field that is set, at any depth, has a value that the schema names, not zero.
  void Enums(const google::protobuf::Message& message, const std::string& path);

  // Keys like team.example/name, values like a-b_c.1, at most kMaxLabels.
  void Labels(const google::protobuf::Map<std::string, std::string>& labels,
              const std::string& field);
  // Relative, without "..", at most 4096 bytes, no control characters.
  void RelativePath(const std::string& path, const std::string& field);
  // "host:port".
  void Address(const std::string& address, const std::string& field);

  // Whether no fault of this field or of a field below it was found.
  bool Clean(std::string_view field) const;
  Violations Take() { return std::move(violations_); }

 private:
  void Number(const google::protobuf::Message& root, const NumberRule& rule);

  Violations violations_;
};

// [a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?
bool IsName(std::string_view text);

}  // namespace coat
