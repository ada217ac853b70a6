// The table of metrics as a page for people.
#pragma once

#include <string>

namespace coat {

// Markdown; the content of deploy/prometheus/METRICS.md.
std::string PrintMetrics();

}  // namespace coat
