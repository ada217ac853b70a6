// A fault of one field, as the reader, SetField and ValidateJobSpec report it.
#pragma once

#include <string>
#include <vector>

#include "configs/base/status.h"

namespace coat {

struct Violation {
  std::string field;        // path, for example "precision.overrides[1].recipe"; empty: the file
  std::string description;  // what is wrong
  std::string suggestion;   // what to write instead; may be empty
  std::string place;        // "job.yaml:12"; empty where no file is known
};
using Violations = std::vector<Violation>;

// "job.yaml:12: train.steps: must be at least 1, is 0; write ..." with absent parts left out.
std::string FormatViolation(const Violation& violation);
// One violation a line, no line break at the end.
std::string FormatViolations(const Violations& violations);
// kInvalidArgument with FormatViolations as its message; ok when the list is empty.
Status ViolationsToStatus(const Violations& violations);

}  // namespace coat
