// The coordinator's state machine. Handlers of server/api and the loops call it; it decides by
// server/scheduler, server/workers and server/jobs, and writes through server/store.
//
// Thread-safe: one mutex, held for memory work only. Callbacks are called without it, from the
// calling thread or a thread of the store. Answers to Submit, Stop and workers' exits leave after
// the commit, and so do launches; GetJob and ListJobs may show a change a moment earlier.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coatrack/v1/job_service.pb.h"
#include "coatrack/v1/worker_service.pb.h"
#include "configs/base/clock.h"
#include "configs/base/status.h"
#include "server/jobs/gang.h"
#include "server/loops/checkpoint_index.h"
#include "server/loops/job_table.h"
#include "server/loops/rendezvous.h"
#include "server/loops/server_view.h"
#include "server/loops/waiters.h"
#include "server/scheduler/snapshot.h"
#include "server/store/journal.h"
#include "server/store/store.h"
#include "server/workers/reconcile.h"
#include "server/workers/registry.h"
#include "server/workers/stall.h"

namespace coat {

struct CoordinatorOptions {
  LeaseOptions leases;
  StallLimits stall;
  GangOptions gang;
  int64_t reconcile_wait_ms = 10'000;
  int64_t rendezvous_timeout_ms = 120'000;  // also for all ranks to be reported running
  int32_t queue_limit = 100'000;            // live jobs
  int64_t retention_ms = 720LL * 3600 * 1000;
  int32_t retained_jobs = 100'000;
};

// How long the job-wide series of a job stay after its end: two scrapes at the usual interval, so
// that its last values are seen.
inline constexpr int64_t kEndedSeriesMs = 30'000;

// What the coordinator is built on; everything outlives it.
struct CoordinatorParts {
  const Clock* clock = nullptr;
  Store* store = nullptr;
  Journal* journal = nullptr;
  std::function<std::string()> new_job_id;      // unique, random
  std::function<void(const std::string&)> log;  // one line of the server's log
};

template <typename T>
using Done = std::function<void(Result<T>)>;

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, CoordinatorParts parts, LoadedState state);

  // ---- Clients.
  struct Submission {
    coatrack::v1::JobSpec submitted;  // canonical
    coatrack::v1::JobSpec effective;  // defaults applied, valid
    std::string request_id;           // empty: not idempotent
    std::string request_hash;         // SHA-256 of the canonical text of `submitted`
    int64_t cpu_bytes = 0;            // predicted, largest rank
    int64_t gpu_bytes = 0;
  };
  // Errors: kAlreadyExists (the request id with other content), kResourceExhausted (queue or disk
  // full), kUnavailable (the coordinator does not schedule), kNotFound (init_from).
  void Submit(Submission submission, Done<coatrack::v1::SubmitResponse> done);
  // Placement if it were submitted and first in the queue now (the fields that Plan answers).
  coatrack::v1::PlanResponse Place(const Submission& submission);
  // Why it may never start, if so: what a submit warns of.
  std::vector<std::string> Warn(const Submission& submission);
  // Cancel (`now` false: checkpoint first) or kill. Errors: kNotFound, kFailedPrecondition (ended).
  void Stop(const std::string& reference, bool now, const std::string& message,
            Done<coatrack::v1::Job> done);

  Result<JobTable::Known> Resolve(const std::string& reference);
  // The job has ended and that is committed.
  bool Settled(int64_t sequence);
  void GetJob(int64_t sequence, Done<coatrack::v1::Job> done);
  void ListJobs(const coatrack::v1::ListRequest& request, Done<coatrack::v1::ListResponse> done);
  void ReadEvents(int64_t sequence, int64_t after, int32_t limit,
                  Done<std::vector<coatrack::v1::JobEvent>> done);
  std::vector<coatrack::v1::Worker> Workers();
  std::vector<coatrack::v1::Checkpoint> Checkpoints(const std::string& job);
  coatrack::v1::GetServerInfoResponse Info();
  ServerView View();  // for metrics
  void CountRpc(const std::string& method, const std::string& code, double seconds);

  // ---- Streams. Topics are JobTopic, RecordsTopic and LogsTopic of a job.
  static std::string JobTopic(int64_t sequence) { return "job/" + std::to_string(sequence); }
  static std::string RecordsTopic(const std::string& id) { return "records/" + id; }
  static std::string LogsTopic(const std::string& id) { return "logs/" + id; }
  uint64_t TopicVersion(const std::string& topic);
  void Wait(const std::string& topic, uint64_t seen, int64_t max_wait_ms, Callback call);
  // While followed, the rank's output travels.
  void FollowLogs(int64_t sequence, int32_t rank);
  void UnfollowLogs(int64_t sequence, int32_t rank);
  Journal* journal() { return parts_.journal; }

  // ---- Workers.
  void Sync(const coatrack::v1::SyncRequest& request, Done<coatrack::v1::SyncResponse> done);
  void PushRecords(const coatrack::v1::PushRecordsRequest& request,
                   Done<coatrack::v1::PushRecordsResponse> done);
  void PushLogs(const coatrack::v1::PushLogsRequest& request,
                Done<coatrack::v1::PushLogsResponse> done);
  Status PutRendezvous(const coatrack::v1::PutRendezvousRequest& request);
  void GetRendezvous(const coatrack::v1::GetRendezvousRequest& request,
                     Done<coatrack::v1::GetRendezvousResponse> done);

  // ---- Loops.
  bool Dispatch();  // one scheduling pass if anything changed; whether it ran
  void Tick();      // leases, limits, stalls, long polls, failed writes
  void Retire();    // deletes finished jobs beyond the retention
  void SetDispatchSignal(std::function<void()> signal);  // called when a pass is due
  // Ends every long poll and stream wait with kUnavailable.
  void Shutdown();
  bool Stopped();  // Shutdown was called

 private:
  // Holds the mutex; at its end changed rows go to the store, and callbacks run without the mutex.
  class Section;
  struct PendingSync {
    std::string incarnation;
    int64_t deadline_ms = 0;
    int64_t resend_ms = 0;  // when an unapplied revision may be sent again
    Done<coatrack::v1::SyncResponse> done;
  };
  struct CommitWaiter {
    uint64_t version = 0;
    std::function<void(const Status&)> call;
  };

  JobTimes Now() const;
  bool Reconciling(int64_t now_ms) const;
  Status CheckServing() const;  // kUnavailable while the coordinator refuses, or stops

  // coordinator.cc
  void Restore(coatrack::v1::JobRow row, const JobTimes& now);
  void Touch(JobRecord* record);  // after any change: desired states, writing, watchers
  void WriteChanged();
  void Committed(int64_t sequence, uint64_t version, int64_t event_sequence, int32_t attempt,
                 const Status& status);
  void AfterCommit(const JobRecord& record, std::function<void(const Status&)> call);
  void RefreshDesired(JobRecord* record);
  void DispatchSoon();
  void Later(Callback call) { ready_.push_back(std::move(call)); }  // without the mutex

  // coordinator_sync.cc
  std::vector<ExpectedRank> ExpectedOn(const WorkerRecord& worker) const;
  void ApplyFinding(const WorkerRecord& worker, const Finding& finding, const JobTimes& now);
  void ApplyCheckpoints(const coatrack::v1::SyncRequest& request);
  bool SyncReady(const WorkerRecord& worker, const PendingSync& sync, int64_t now_ms) const;
  void AnswerSync(const std::string& worker, int64_t now_ms);
  std::vector<coatrack::v1::RankKey> Acknowledged(const std::string& worker) const;
  coatrack::v1::SyncResponse DesiredOf(WorkerRecord* worker);
  coatrack::v1::DesiredRank DesiredRankOf(const JobRecord& record, int rank) const;

  // coordinator_query.cc
  static ActiveJob ShownOf(const JobRecord& record);
  void ForgetEnded(int64_t now_ms);

  // coordinator_records.cc
  Result<JobRecord*> Fence(const coatrack::v1::RankKey& key, const std::string& worker);
  void ApplyRecord(JobRecord* record, const coatrack::v1::StepRecord& step, const JobTimes& now);

  // coordinator_schedule.cc
  Snapshot TakeSnapshot(const JobTimes& now) const;
  void AddPending(const JobTimes& now, Snapshot* snapshot);
  PendingJob PendingOf(const JobRecord& record, const JobTimes& now) const;
  bool ApplyPlacement(const Placement& placement, const JobTimes& now);
  std::map<std::pair<std::string, std::string>, std::string> HeldDevices() const;
  GangPlace PlaceOf(const JobRecord& record, const Placement& placement) const;

  // coordinator_tick.cc
  void ExpireLeases(const JobTimes& now);
  void CheckLimits(JobRecord* record, const JobTimes& now);
  void CheckStall(JobRecord* record, const JobTimes& now);

  const CoordinatorOptions options_;
  const CoordinatorParts parts_;
  std::mutex mutex_;
  int64_t epoch_;
  std::string cluster_id_;
  std::string refusal_;  // not empty: neither schedules nor answers workers
  std::string storage_error_;
  int64_t next_sequence_;
  int64_t reconcile_until_ms_;
  std::set<std::string> awaited_;  // workers of restored gangs that have not reported yet
  bool stopped_ = false;
  bool dispatch_due_ = true;
  bool dispatch_running_ = false;
  int64_t dispatch_at_ms_ = 0;  // steady: the next pass that time alone makes due; 0: none
  int64_t rewrite_at_ms_ = 0;   // steady: failed writes are tried again then; 0: none

  JobTable jobs_;
  Registry registry_;
  CheckpointIndex checkpoints_;
  Rendezvous rendezvous_;
  Waiters waiters_;
  std::set<int64_t> changed_;                        // live jobs to be written
  std::set<int64_t> holding_;                        // live jobs that hold devices
  std::deque<std::pair<int64_t, ActiveJob>> ended_;  // steady ms of the end; for metrics
  std::shared_ptr<const Snapshot> idle_workers_;     // for Warn; null: to be taken again
  std::map<int64_t, std::vector<CommitWaiter>> commit_waiters_;
  std::map<std::string, PendingSync> syncs_;
  std::set<std::string> woken_;  // workers whose pending Sync may be ready
  struct ReportedEnd {
    coatrack::v1::RankKey key;
    bool delivered = false;  // records and output are here, or were refused
  };
  std::map<std::string, std::vector<ReportedEnd>> reported_ends_;  // in the last Sync
  std::map<std::pair<int64_t, int32_t>, int> followers_;           // (job, rank)
  std::map<LogKey, int64_t> log_ends_;  // where output of live ranks goes on
  std::map<std::tuple<std::string, int32_t, int32_t>, int64_t> record_offsets_;
  std::vector<Callback> ready_;
  std::function<void()> dispatch_signal_;
  ServerCounters counters_;
};

}  // namespace coat
