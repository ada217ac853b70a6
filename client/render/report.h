// `coat report`: one HTML page about a job that needs nothing but itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/render/history.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

struct ReportData {
  coatrack::v1::Job job;
  RunHistory history;
  std::vector<coatrack::v1::JobEvent> events;  // oldest first
  int64_t device_bytes = 0;                    // of rank 0's device; 0: unknown
  int64_t now_s = 0;                           // since 1970
};

// A whole document: curves as inline SVG, each with a table of its values, every text escaped,
// styles inside, no script, nothing that a browser would fetch (a content security policy in the
// page forbids it). Bounded in size whatever the number of steps: curves show at most 600 points,
// tables at most 60 rows.
std::string ReportHtml(const ReportData& data);

}  // namespace coat
