#include "server/jobs/transition.h"

#include <array>

#include "server/jobs/reason.h"

namespace coat {
namespace {

using coatrack::v1::JobState;

struct Row {
  JobState from;
  Trigger trigger;
  JobState to;
};

constexpr std::array<Row, 17> kTable{{
    {coatrack::v1::JOB_STATE_PENDING, Trigger::kPlaced, coatrack::v1::JOB_STATE_STARTING},
    {coatrack::v1::JOB_STATE_PENDING, Trigger::kCancelled, coatrack::v1::JOB_STATE_CANCELLED},
    {coatrack::v1::JOB_STATE_PENDING, Trigger::kFailed, coatrack::v1::JOB_STATE_FAILED},
    {coatrack::v1::JOB_STATE_STARTING, Trigger::kAllRunning, coatrack::v1::JOB_STATE_RUNNING},
    {coatrack::v1::JOB_STATE_STARTING, Trigger::kAttemptFailed, coatrack::v1::JOB_STATE_RECOVERING},
    {coatrack::v1::JOB_STATE_STARTING, Trigger::kStopAsked, coatrack::v1::JOB_STATE_STOPPING},
    {coatrack::v1::JOB_STATE_STARTING, Trigger::kSucceeded, coatrack::v1::JOB_STATE_SUCCEEDED},
    {coatrack::v1::JOB_STATE_RUNNING, Trigger::kAttemptFailed, coatrack::v1::JOB_STATE_RECOVERING},
    {coatrack::v1::JOB_STATE_RUNNING, Trigger::kStopAsked, coatrack::v1::JOB_STATE_STOPPING},
    {coatrack::v1::JOB_STATE_RUNNING, Trigger::kSucceeded, coatrack::v1::JOB_STATE_SUCCEEDED},
    {coatrack::v1::JOB_STATE_RECOVERING, Trigger::kStopAsked, coatrack::v1::JOB_STATE_STOPPING},
    {coatrack::v1::JOB_STATE_RECOVERING, Trigger::kRetry, coatrack::v1::JOB_STATE_PENDING},
    {coatrack::v1::JOB_STATE_RECOVERING, Trigger::kFailed, coatrack::v1::JOB_STATE_FAILED},
    {coatrack::v1::JOB_STATE_RECOVERING, Trigger::kSucceeded, coatrack::v1::JOB_STATE_SUCCEEDED},
    {coatrack::v1::JOB_STATE_STOPPING, Trigger::kCancelled, coatrack::v1::JOB_STATE_CANCELLED},
    {coatrack::v1::JOB_STATE_STOPPING, Trigger::kFailed, coatrack::v1::JOB_STATE_FAILED},
    {coatrack::v1::JOB_STATE_STOPPING, Trigger::kSucceeded, coatrack::v1::JOB_STATE_SUCCEEDED},
}};

}  // namespace

const char* TriggerName(Trigger trigger) {
  switch (trigger) {
    case Trigger::kPlaced: return "placed";
    case Trigger::kAllRunning: return "all running";
    case Trigger::kAttemptFailed: return "attempt failed";
    case Trigger::kStopAsked: return "stop asked";
    case Trigger::kRetry: return "retry";
    case Trigger::kSucceeded: return "succeeded";
    case Trigger::kFailed: return "failed";
    case Trigger::kCancelled: return "cancelled";
  }
  return "?";
}

std::optional<JobState> NextState(JobState from, Trigger trigger) {
  for (const Row& row : kTable) {
    if (row.from == from && row.trigger == trigger) return row.to;
  }
  return std::nullopt;
}

bool IsTerminal(JobState state) {
  return state == coatrack::v1::JOB_STATE_SUCCEEDED || state == coatrack::v1::JOB_STATE_FAILED ||
         state == coatrack::v1::JOB_STATE_CANCELLED;
}

bool HoldsDevices(JobState state) {
  return state == coatrack::v1::JOB_STATE_STARTING || state == coatrack::v1::JOB_STATE_RUNNING ||
         state == coatrack::v1::JOB_STATE_STOPPING || state == coatrack::v1::JOB_STATE_RECOVERING;
}

std::string PrintTransitions() {
  std::string text =
      "# Job states\n\nPrinted from the table in transition.cc; a test compares.\n\n"
      "| from | trigger | to |\n|---|---|---|\n";
  for (const Row& row : kTable) {
    text += std::string("| ") + StateName(row.from) + " | " + TriggerName(row.trigger) + " | " +
            StateName(row.to) + " |\n";
  }
  return text;
}

}  // namespace coat
