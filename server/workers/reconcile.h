// Expected ranks of one worker against what it reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"

namespace coat {

struct ExpectedRank {
  std::string job;
  int32_t attempt = 0;
  int32_t rank = 0;
  bool seen_running = false;       // reported running before
  uint64_t unlisted_revision = 0;  // the desired state that first left it out; 0: it is listed
};

enum class FindingKind : uint8_t {
  kRunning,  // as reported
  kExited,   // as reported, with its exit
  kLost,     // reported lost, or seen running before and missing now
  kGone,     // left out of the applied desired state and not running: nothing is left of it
};
struct Finding {
  ExpectedRank expected;
  FindingKind kind = FindingKind::kRunning;
  const coatrack::v1::RankReport* report = nullptr;  // null when the report does not mention it
};

struct Reconciled {
  std::vector<Finding> findings;               // a listed rank not yet started has none
  std::vector<coatrack::v1::RankKey> refused;  // ended, and nobody expects them: may be forgotten
  bool undesired = false;                      // something runs that is not listed
};

// A report of another attempt than the expected one is refused: it changes nothing.
Reconciled Reconcile(const std::vector<ExpectedRank>& expected,
                     const coatrack::v1::SyncRequest& request);

}  // namespace coat
