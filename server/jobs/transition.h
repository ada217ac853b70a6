// The one table of job states: which trigger leads from which state to which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coatrack/v1/events.pb.h"

namespace coat {

enum class Trigger : uint8_t {
  kPlaced,         // a gang was allocated, the launch is committed
  kAllRunning,     // every rank was reported running
  kAttemptFailed,  // a rank was lost or failed, and the job may be tried again
  kStopAsked,      // cancel, kill, time limit, or a failure that no retry helps
  kRetry,          // no rank is left: back to the queue
  kSucceeded,      // every rank ended with COMPLETED
  kFailed,         // no rank is left and no attempt is due
  kCancelled,      // no rank is left of a cancelled job
};
inline constexpr int kTriggers = 8;
const char* TriggerName(Trigger trigger);

// The state after `trigger`, or nothing when the table has no such row.
std::optional<coatrack::v1::JobState> NextState(coatrack::v1::JobState from, Trigger trigger);

bool IsTerminal(coatrack::v1::JobState state);
// Whether the job holds an allocation in this state.
bool HoldsDevices(coatrack::v1::JobState state);

// The table as Markdown: server/jobs/TRANSITIONS.md is this text (checked by a test).
std::string PrintTransitions();

}  // namespace coat
