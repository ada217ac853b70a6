#include "server/jobs/job_record.h"

#include "configs/base/error.h"
#include "server/jobs/reason.h"

namespace coat {

google::protobuf::Timestamp ToTimestamp(int64_t wall_ms) {
  google::protobuf::Timestamp time;
  time.set_seconds(wall_ms / 1000);
  time.set_nanos(static_cast<int32_t>(wall_ms % 1000) * 1'000'000);
  return time;
}

int64_t ToWallMs(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1000 + time.nanos() / 1'000'000;
}

void Note(JobRecord* record, coatrack::v1::Reason reason, const std::string& message,
          const JobTimes& now) {
  coatrack::v1::JobRow& row = record->row;
  row.set_event_sequence(row.event_sequence() + 1);
  coatrack::v1::JobEvent event;
  event.set_sequence(row.event_sequence());
  *event.mutable_time() = ToTimestamp(now.wall_ms);
  event.set_state(row.job().state());
  event.set_reason(reason);
  event.set_attempt(row.job().attempt());
  event.set_message(message);
  record->uncommitted.push_back(std::move(event));
  ++record->version;
}

void Move(JobRecord* record, Trigger trigger, coatrack::v1::Reason reason,
          const std::string& message, const JobTimes& now) {
  coatrack::v1::Job* job = record->row.mutable_job();
  const auto next = NextState(job->state(), trigger);
  Check(next.has_value(), "job " + job->id() + ": no transition from " + StateName(job->state()) +
                              " by '" + TriggerName(trigger) + "'");
  job->set_state(*next);
  job->set_reason(reason);
  job->set_message(message);
  job->set_pending_reason(coatrack::v1::PENDING_REASON_UNSPECIFIED);
  record->entered_ms = now.steady_ms;
  if (*next == coatrack::v1::JOB_STATE_PENDING) {
    job->set_pending_reason(coatrack::v1::PENDING_REASON_QUEUED);
    record->queued_ms = now.steady_ms;
  }
  if (*next == coatrack::v1::JOB_STATE_RUNNING && !job->has_started_at()) {
    *job->mutable_started_at() = ToTimestamp(now.wall_ms);
  }
  if (IsTerminal(*next)) *job->mutable_finished_at() = ToTimestamp(now.wall_ms);
  Note(record, reason, message, now);
}

JobRecord NewJob(const std::string& id, int64_t sequence, const coatrack::v1::JobSpec& submitted,
                 const coatrack::v1::JobSpec& effective, const JobTimes& now) {
  JobRecord record;
  record.effective = effective;
  record.row.set_sequence(sequence);
  coatrack::v1::Job* job = record.row.mutable_job();
  job->set_id(id);
  *job->mutable_spec() = submitted;
  job->set_state(coatrack::v1::JOB_STATE_PENDING);
  job->set_pending_reason(coatrack::v1::PENDING_REASON_QUEUED);
  job->set_steps(effective.train().steps());
  *job->mutable_submitted_at() = ToTimestamp(now.wall_ms);
  record.entered_ms = record.queued_ms = now.steady_ms;
  Note(&record, coatrack::v1::REASON_UNSPECIFIED, "submitted", now);
  return record;
}

}  // namespace coat
