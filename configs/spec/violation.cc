#include "configs/spec/violation.h"

namespace coat {

std::string FormatViolation(const Violation& violation) {
  std::string text;
  if (!violation.place.empty()) text += violation.place + ": ";
  if (!violation.field.empty()) text += violation.field + ": ";
  text += violation.description;
  if (!violation.suggestion.empty()) text += "; " + violation.suggestion;
  return text;
}

std::string FormatViolations(const Violations& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    if (!text.empty()) text += '\n';
    text += FormatViolation(violation);
  }
  return text;
}

Status ViolationsToStatus(const Violations& violations) {
  if (violations.empty()) return Status();
  return Status(Code::kInvalidArgument, FormatViolations(violations));
}

}  // namespace coat
