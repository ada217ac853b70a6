#include <algorithm>

#include "configs/base/units.h"
#include "configs/spec/defaults.h"
#include "server/loops/coordinator.h"
#include "server/loops/section.h"

namespace coat {

void Coordinator::Tick() {
  Section section(this);
  const JobTimes now = Now();
  waiters_.Expire(now.steady_ms, &ready_);
  for (const auto& [worker, sync] : syncs_) woken_.insert(worker);
  if (rewrite_at_ms_ > 0 && now.steady_ms >= rewrite_at_ms_) rewrite_at_ms_ = 0;
  if (dispatch_at_ms_ > 0 && now.steady_ms >= dispatch_at_ms_) DispatchSoon();
  if (!refusal_.empty()) return;
  ExpireLeases(now);
  for (const int64_t sequence : std::set<int64_t>(holding_)) {
    JobRecord* record = jobs_.Live(sequence);
    const uint64_t version = record->version;
    CheckLimits(record, now);
    if (!record->row.attempt().ended()) CheckStall(record, now);
    Advance(record, options_.gang, now);
    if (record->version != version) Touch(record);
  }
}

void Coordinator::ExpireLeases(const JobTimes& now) {
  for (const RegistryEvent& event : registry_.Expire(now.steady_ms)) {
    WorkerRecord* worker = registry_.Find(event.worker);
    if (worker == nullptr) continue;
    parts_.log("worker " + event.worker + " is " + (event.lost ? "lost" : "unreachable"));
    idle_workers_ = nullptr;
    awaited_.erase(event.worker);
    for (const std::string& id : std::set<std::string>(worker->jobs)) {
      JobRecord* record = jobs_.LiveById(id);
      if (record == nullptr) continue;
      if (event.lost) {
        AbandonWorker(record, event.worker, options_.gang, now);
      } else {
        Note(record, coatrack::v1::REASON_UNSPECIFIED,
             "worker " + event.worker + " is unreachable; its devices are not free", now);
      }
      Touch(record);
    }
    DispatchSoon();
  }
}

void Coordinator::CheckLimits(JobRecord* record, const JobTimes& now) {
  const coatrack::v1::JobSpec& spec = record->effective;
  if (spec.resources().has_time_limit() && record->state() != coatrack::v1::JOB_STATE_STOPPING &&
      RunMs(*record, now.steady_ms) >= DurationMs(spec.resources().time_limit())) {
    return AskStop(record, coatrack::v1::REASON_TIME_LIMIT,
                   "resources.time_limit of " +
                       FormatDurationMs(DurationMs(spec.resources().time_limit())) + " is over",
                   coatrack::v1::STOP_MODE_CHECKPOINT, options_.gang, now);
  }
  if (record->row.attempt().ended()) return;
  const std::optional<std::string> overdue = rendezvous_.Overdue(
      record->id(), record->row.job().attempt(), now.steady_ms, options_.rendezvous_timeout_ms);
  if (overdue.has_value()) {
    return EndAttempt(record, coatrack::v1::REASON_RENDEZVOUS_TIMEOUT,
                      "no rank has put '" + *overdue + "' for the others",
                      coatrack::v1::STOP_MODE_NOW, options_.gang, now);
  }
  if (record->state() != coatrack::v1::JOB_STATE_STARTING ||
      now.steady_ms - record->entered_ms < options_.rendezvous_timeout_ms) {
    return;
  }
  std::string missing;
  for (const coatrack::v1::RankRow& rank : record->row.attempt().ranks()) {
    if (rank.state() != coatrack::v1::RANK_ROW_STATE_PLACED) continue;
    const WorkerRecord* worker = registry_.Find(rank.worker());
    // A silent worker is judged by its lease.
    if (worker == nullptr || worker->state == coatrack::v1::WORKER_STATE_UNREACHABLE) return;
    registry_.LaunchFailed(rank.worker());
    missing += (missing.empty() ? "" : ", ") + rank.worker();
  }
  EndAttempt(record, coatrack::v1::REASON_RENDEZVOUS_TIMEOUT,
             "ranks have not started on " + missing, coatrack::v1::STOP_MODE_NOW, options_.gang,
             now);
}

void Coordinator::CheckStall(JobRecord* record, const JobTimes& now) {
  if (record->state() != coatrack::v1::JOB_STATE_RUNNING) return;
  std::vector<RankProgress> ranks;
  for (int r = 0; r < record->row.attempt().ranks_size(); ++r) {
    const coatrack::v1::RankRow& row = record->row.attempt().ranks(r);
    const WorkerRecord* worker = registry_.Find(row.worker());
    const RankLive& live = record->live[r];
    const bool silent = worker == nullptr || worker->incarnation.empty() ||
                        worker->state == coatrack::v1::WORKER_STATE_UNREACHABLE;
    ranks.push_back({r, row.worker(), live.phase, live.step, live.sequence,
                     now.steady_ms - live.progress_at_ms, IsGone(row) || silent});
  }
  const std::vector<double> times(record->step_seconds.begin(), record->step_seconds.end());
  const std::optional<Stall> stall = FindStall(ranks, times, options_.stall);
  if (!stall.has_value()) return;
  EndAttempt(record, coatrack::v1::REASON_COLLECTIVE_STALL, stall->message,
             coatrack::v1::STOP_MODE_NOW, options_.gang, now);
}

void Coordinator::Retire() {
  Section section(this);
  const int64_t wall_ms = Now().wall_ms;
  std::vector<int64_t> sequences;
  std::vector<std::string> ids;
  const auto& finished = jobs_.finished();
  const auto surplus = static_cast<int64_t>(finished.size()) - options_.retained_jobs;
  int64_t index = 0;
  for (const auto& [sequence, job] : finished) {
    if (index++ >= surplus && wall_ms - job.finished_ms <= options_.retention_ms) continue;
    sequences.push_back(sequence);
    ids.push_back(job.id);
  }
  if (sequences.empty()) return;
  for (const int64_t sequence : sequences) jobs_.Remove(sequence);
  parts_.store->Remove(sequences, [log = parts_.log](const Status& status) {
    if (!status.ok()) log("retention: " + status.message());
  });
  parts_.journal->Remove(std::move(ids));
}

}  // namespace coat
