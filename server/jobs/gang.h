// The ranks of one attempt as a whole: what their reports, losses and stop requests do to the job.
// Pure functions of the record; states move by Move alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"
#include "server/jobs/job_record.h"

namespace coat {

struct GangOptions {
  int64_t grace_ms = 60'000;  // for a checkpoint before a stop; then the ranks are killed
  int64_t retry_backoff_ms = 1'000;
  int64_t log_tail_wait_ms = 10'000;  // a terminal state waits so long for the end of the output
};

struct GangPlace {
  coatrack::v1::DeviceKind device = coatrack::v1::DEVICE_KIND_CPU;
  std::string root_uuid;
  struct Rank {
    std::string worker;
    std::string device;
    int32_t threads = 0;
  };
  std::vector<Rank> ranks;
  std::string resume;  // checkpoint directory name; empty: from the start
  int64_t resume_step = 0;
  std::string init_checkpoint;  // of init_from's job
};

// PENDING -> STARTING: a new attempt with this allocation.
void PlaceGang(JobRecord* record, const GangPlace& place, const JobTimes& now);

// Reports of one rank of the current attempt. A rank that is already gone ignores them.
void MarkRunning(JobRecord* record, int rank, const coatrack::v1::RankReport* report,
                 const JobTimes& now);
// `exit` is empty for a rank that was killed before it could say anything.
void MarkGone(JobRecord* record, int rank, const std::optional<coatrack::v1::RankExit>& exit,
              bool logs_complete, const GangOptions& options, const JobTimes& now);
// Its worker is lost: its ranks are given up and the attempt ends.
void AbandonWorker(JobRecord* record, const std::string& worker, const GangOptions& options,
                   const JobTimes& now);

// Ends the attempt for a reason of the coordinator (stall, time-out, drain). With
// STOP_MODE_CHECKPOINT the ranks save first.
void EndAttempt(JobRecord* record, coatrack::v1::Reason reason, const std::string& message,
                coatrack::v1::StopMode mode, const GangOptions& options, const JobTimes& now);

// Cancel, kill or time limit. `reason` is what the job ends with. A second call can only make the
// stop harder. Nothing happens to a job that has ended.
void AskStop(JobRecord* record, coatrack::v1::Reason reason, const std::string& message,
             coatrack::v1::StopMode mode, const GangOptions& options, const JobTimes& now);

// Moves the job as far as its ranks and the time allow. Idempotent.
void Advance(JobRecord* record, const GangOptions& options, const JobTimes& now);

// Whether the rank belongs into its worker's desired state, and with which stop mode.
bool Listed(const JobRecord& record, int rank);
bool IsGone(const coatrack::v1::RankRow& rank);  // or given up
// Time the job has run, earlier attempts included.
int64_t RunMs(const JobRecord& record, int64_t steady_ms);

}  // namespace coat
