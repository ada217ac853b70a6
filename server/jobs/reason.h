// What a reason means for the next attempt (SERVICE.md, scheduling and failure rules). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "coatrack/v1/events.pb.h"

namespace coat {

enum class ReasonClass : uint8_t {
  kDone,            // COMPLETED
  kInfrastructure,  // retried, and does not use up the user's restarts
  kRetryable,       // retried, counts against max_restarts
  kFinal,           // a retry cannot help, or somebody asked for the end
};

ReasonClass ClassifyReason(coatrack::v1::Reason reason);

// The reason that explains the others when several ranks of a gang report one: a rank that was
// killed explains its peers' broken collectives. UNSPECIFIED for an empty list.
coatrack::v1::Reason PrimaryReason(const std::vector<coatrack::v1::Reason>& reasons);

struct RetryInput {
  coatrack::v1::Reason reason = coatrack::v1::REASON_UNSPECIFIED;
  int32_t restarts = 0;  // used up so far
  int32_t max_restarts = 0;
  int32_t failures_in_row = 0;         // this one included; without progress between them
  int32_t launch_failures_in_row = 0;  // this one included
  int64_t backoff_ms = 1000;           // after the first failure
};
struct RetryDecision {
  bool retry = false;
  bool counts = false;   // against max_restarts
  int64_t delay_ms = 0;  // backoff_ms * 2^(failures_in_row - 1), at most kMaxBackoffMs
};

inline constexpr int64_t kMaxBackoffMs = 60'000;
inline constexpr int32_t kMaxLaunchFailures = 5;  // of one job in a row; then the job fails

RetryDecision DecideRetry(const RetryInput& input);

// "HOST_OOM" for REASON_HOST_OOM; the same for states and pending reasons.
const char* ReasonName(coatrack::v1::Reason reason);
const char* StateName(coatrack::v1::JobState state);
const char* PendingReasonName(coatrack::v1::PendingReason reason);

}  // namespace coat
