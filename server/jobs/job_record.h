// One live job in the coordinator's memory: its row and what the row does not need to survive.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "coatrack/v1/job_row.pb.h"
#include "server/jobs/transition.h"

namespace coat {

struct JobTimes {
  int64_t steady_ms = 0;  // decides
  int64_t wall_ms = 0;    // is shown
};

// What a rank last said of itself; lost with the coordinator, reported again by the worker.
struct RankLive {
  bool seen_running = false;  // in this attempt, by this coordinator or an earlier one
  coatrack::v1::Phase phase = coatrack::v1::PHASE_UNSPECIFIED;
  int64_t step = 0;
  uint64_t sequence = 0;
  int64_t progress_at_ms = 0;  // steady: when phase, step or sequence last moved
  uint64_t exit_version = 0;   // row version that holds its exit
  uint64_t unlisted_revision =
      0;                  // of the worker's desired state that first left it out; 0: listed
  int32_t told_stop = 0;  // StopMode in the desired state last built
  bool told = false;      // was in it
};

struct JobRecord {
  coatrack::v1::JobRow row;
  coatrack::v1::JobSpec effective;  // defaults applied
  std::vector<RankLive> live;       // beside row.attempt().ranks()
  std::set<std::string> workers;    // whose lists of jobs name this one
  int64_t entered_ms = 0;           // steady: when the state was entered
  int64_t retry_at_ms = 0;          // steady: not placed before
  int64_t queued_ms = 0;            // steady: when it last became PENDING
  int64_t attempt_started_ms = 0;   // steady
  int64_t stop_at_ms = 0;           // steady: a checkpointing stop becomes a kill; 0: none
  int64_t gone_at_ms = 0;           // steady: the last rank went, the tail of the log is awaited
  std::deque<double> step_seconds;  // newest last, at most 32
  coatrack::v1::StepRecord latest;  // of rank 0; optional values stay until replaced
  int64_t checkpoints_total = 0;    // committed since this coordinator knows the job
  std::vector<coatrack::v1::JobEvent> uncommitted;  // events no commit has confirmed
  uint64_t version = 0;                             // grows with each change of the row
  uint64_t written_version = 0;                     // handed to the store
  uint64_t committed_version = 0;                   // durable
  int32_t committed_attempt = 0;                    // launches of this attempt may be sent

  const std::string& id() const { return row.job().id(); }
  coatrack::v1::JobState state() const { return row.job().state(); }
  bool terminal() const { return IsTerminal(state()); }
};

// The only place where a state moves: looks the trigger up, sets state, reason, message and
// timestamps, appends an event. Throws Error(kInternal) for a trigger the table does not have.
void Move(JobRecord* record, Trigger trigger, coatrack::v1::Reason reason,
          const std::string& message, const JobTimes& now);

// An event that leaves the state as it is.
void Note(JobRecord* record, coatrack::v1::Reason reason, const std::string& message,
          const JobTimes& now);

// A PENDING job with its first event.
JobRecord NewJob(const std::string& id, int64_t sequence, const coatrack::v1::JobSpec& submitted,
                 const coatrack::v1::JobSpec& effective, const JobTimes& now);

google::protobuf::Timestamp ToTimestamp(int64_t wall_ms);
int64_t ToWallMs(const google::protobuf::Timestamp& time);

}  // namespace coat
