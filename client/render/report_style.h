// The style sheet of the report.
#pragma once

namespace coat {

// Colours by variables: those of a light page, and by prefers-color-scheme those of a dark one.
extern const char* const kReportStyle;

}  // namespace coat
