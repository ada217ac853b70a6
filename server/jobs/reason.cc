#include "server/jobs/reason.h"

#include <algorithm>
#include <string>

namespace coat {
namespace {

using coatrack::v1::Reason;

// Smaller explains larger.
int Causality(Reason reason) {
  switch (reason) {
    case coatrack::v1::REASON_HOST_OOM: return 0;
    case coatrack::v1::REASON_OUT_OF_DEVICE_MEMORY: return 1;
    case coatrack::v1::REASON_DATA_CHANGED: return 2;
    case coatrack::v1::REASON_USER_ERROR: return 3;
    case coatrack::v1::REASON_NUMERIC: return 4;
    case coatrack::v1::REASON_STORAGE: return 5;
    case coatrack::v1::REASON_CRASHED: return 6;
    case coatrack::v1::REASON_KILLED: return 7;
    case coatrack::v1::REASON_LAUNCH_FAILED: return 8;
    case coatrack::v1::REASON_WORKER_LOST: return 9;
    case coatrack::v1::REASON_INTERNAL: return 10;
    case coatrack::v1::REASON_RENDEZVOUS_TIMEOUT: return 11;
    case coatrack::v1::REASON_COLLECTIVE_STALL: return 12;
    case coatrack::v1::REASON_PEER_FAILED: return 13;
    case coatrack::v1::REASON_STOPPED: return 14;
    default: return 15;
  }
}

}  // namespace

ReasonClass ClassifyReason(Reason reason) {
  switch (reason) {
    case coatrack::v1::REASON_COMPLETED: return ReasonClass::kDone;
    case coatrack::v1::REASON_WORKER_LOST:
    case coatrack::v1::REASON_PREEMPTED:
    case coatrack::v1::REASON_RENDEZVOUS_TIMEOUT:
    case coatrack::v1::REASON_LAUNCH_FAILED:
    case coatrack::v1::REASON_STOPPED: return ReasonClass::kInfrastructure;
    case coatrack::v1::REASON_USER_ERROR:
    case coatrack::v1::REASON_DATA_CHANGED:
    case coatrack::v1::REASON_NUMERIC:
    case coatrack::v1::REASON_CANCELLED:
    case coatrack::v1::REASON_TIME_LIMIT: return ReasonClass::kFinal;
    default: return ReasonClass::kRetryable;
  }
}

Reason PrimaryReason(const std::vector<Reason>& reasons) {
  if (reasons.empty()) return coatrack::v1::REASON_UNSPECIFIED;
  return *std::min_element(reasons.begin(), reasons.end(),
                           [](Reason a, Reason b) { return Causality(a) < Causality(b); });
}

RetryDecision DecideRetry(const RetryInput& input) {
  RetryDecision decision;
  const ReasonClass kind = ClassifyReason(input.reason);
  decision.counts = kind == ReasonClass::kRetryable;
  if (kind == ReasonClass::kInfrastructure) {
    decision.retry = input.launch_failures_in_row < kMaxLaunchFailures;
  } else if (kind == ReasonClass::kRetryable) {
    decision.retry = input.restarts < input.max_restarts;
  }
  const int doublings = std::clamp(input.failures_in_row - 1, 0, 16);
  decision.delay_ms = std::min(kMaxBackoffMs, input.backoff_ms << doublings);
  return decision;
}

const char* ReasonName(Reason reason) {
  return coatrack::v1::Reason_Name(reason).c_str() + std::string_view("REASON_").size();
}
const char* StateName(coatrack::v1::JobState state) {
  return coatrack::v1::JobState_Name(state).c_str() + std::string_view("JOB_STATE_").size();
}
const char* PendingReasonName(coatrack::v1::PendingReason reason) {
  return coatrack::v1::PendingReason_Name(reason).c_str() +
         std::string_view("PENDING_REASON_").size();
}

}  // namespace coat
