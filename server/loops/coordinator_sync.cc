#include <algorithm>

#include "configs/base/keepalive.h"
#include "server/jobs/reason.h"
#include "server/loops/coordinator.h"
#include "server/loops/section.h"

namespace coat {
namespace {

constexpr int64_t kResendMs = 500;  // a revision that was sent but is not reported as applied

bool Progressing(coatrack::v1::Phase phase) {
  return phase == coatrack::v1::PHASE_STEP || phase == coatrack::v1::PHASE_EVALUATE ||
         phase == coatrack::v1::PHASE_SAVE || phase == coatrack::v1::PHASE_DONE;
}

}  // namespace

void Coordinator::Sync(const coatrack::v1::SyncRequest& request,
                       Done<coatrack::v1::SyncResponse> done) {
  Section section(this);
  const JobTimes now = Now();
  Status status = CheckServing();
  Result<Registry::Heard> heard = status;
  if (status.ok()) {
    heard = registry_.Hear(request, now.steady_ms);
    status = heard.status();
  }
  if (!status.ok()) return Later([done, status] { done(status); });
  WorkerRecord* worker = heard->worker;
  const coatrack::v1::WorkerState before = worker->state;
  if (worker->revision == 0) worker->revision = (static_cast<uint64_t>(epoch_) << 32) + 1;
  if (heard->fresh) {
    parts_.log("worker " + worker->name + " joined (" + request.incarnation() + ")");
    idle_workers_ = nullptr;
  }
  ApplyCheckpoints(request);

  const Reconciled reconciled = Reconcile(ExpectedOn(*worker), request);
  for (const Finding& finding : reconciled.findings) ApplyFinding(*worker, finding, now);
  for (const coatrack::v1::RankKey& key : reconciled.refused) {
    const JobRecord* record = jobs_.LiveById(key.job_id());
    if (record == nullptr || record->row.job().attempt() == key.attempt()) continue;
    parts_.log("worker " + worker->name + ": refused the end of rank " +
               std::to_string(key.rank()) + " of job " + key.job_id() + ", attempt " +
               std::to_string(key.attempt()) + ": not the current attempt");
  }
  if (worker->draining) {
    for (const std::string& id : std::set<std::string>(worker->jobs)) {
      JobRecord* record = jobs_.LiveById(id);
      if (record == nullptr || record->row.attempt().ended()) continue;
      EndAttempt(record, coatrack::v1::REASON_STOPPED, "worker " + worker->name + " drains",
                 coatrack::v1::STOP_MODE_CHECKPOINT, options_.gang, now);
      Touch(record);
    }
  }
  registry_.Settle(worker, reconciled.undesired);
  awaited_.erase(worker->name);
  if (before != worker->state) idle_workers_ = nullptr;
  DispatchSoon();

  auto& ends = reported_ends_[worker->name];
  ends.clear();
  for (const coatrack::v1::RankReport& rank : request.ranks()) {
    if (rank.state() == coatrack::v1::RANK_STATE_RUNNING) continue;
    ends.push_back({rank.key(), rank.logs_delivered()});
  }
  const auto old = syncs_.find(worker->name);
  if (old != syncs_.end()) {
    Later([done = std::move(old->second.done)] {
      done(Status(Code::kAborted, "a newer Sync of this worker has arrived"));
    });
  }
  const int64_t wait_ms = std::clamp<int64_t>(request.max_wait_ms(), 0, kSyncMaxWaitMs);
  syncs_[worker->name] = {worker->incarnation, now.steady_ms + wait_ms, now.steady_ms + kResendMs,
                          std::move(done)};
  woken_.insert(worker->name);
}

std::vector<ExpectedRank> Coordinator::ExpectedOn(const WorkerRecord& worker) const {
  std::vector<ExpectedRank> expected;
  for (const int64_t sequence : holding_) {
    const JobRecord* record = jobs_.Live(sequence);
    const coatrack::v1::AttemptRow& attempt = record->row.attempt();
    for (int r = 0; r < attempt.ranks_size(); ++r) {
      const coatrack::v1::RankRow& rank = attempt.ranks(r);
      if (rank.worker() != worker.name) continue;
      if (rank.state() == coatrack::v1::RANK_ROW_STATE_ABANDONED) continue;
      const bool gone = IsGone(rank);
      const uint64_t unlisted = record->live[r].unlisted_revision;
      expected.push_back({record->id(), record->row.job().attempt(), r,
                          record->live[r].seen_running,
                          gone ? std::max<uint64_t>(1, unlisted) : unlisted});
    }
  }
  return expected;
}

void Coordinator::ApplyFinding(const WorkerRecord& worker, const Finding& finding,
                               const JobTimes& now) {
  JobRecord* record = jobs_.LiveById(finding.expected.job);
  // An earlier finding of this report may have ended the attempt.
  if (record == nullptr || finding.expected.rank >= record->row.attempt().ranks_size()) return;
  const int rank = finding.expected.rank;
  const uint64_t version = record->version;
  switch (finding.kind) {
    case FindingKind::kRunning:
      MarkRunning(record, rank, finding.report, now);
      if (Progressing(finding.report->phase())) registry_.LaunchSucceeded(worker.name);
      break;
    case FindingKind::kExited: {
      const bool known = IsGone(record->row.attempt().ranks(rank));
      const coatrack::v1::Reason reason = finding.report->exit().reason();
      if (!known && reason == coatrack::v1::REASON_LAUNCH_FAILED) {
        registry_.LaunchFailed(worker.name);
      } else if (reason == coatrack::v1::REASON_COMPLETED) {
        registry_.LaunchSucceeded(worker.name);
      }
      MarkRunning(record, rank, finding.report, now);
      MarkGone(record, rank, finding.report->exit(), finding.report->logs_delivered(),
               options_.gang, now);
      break;
    }
    case FindingKind::kLost: {
      coatrack::v1::RankExit exit;
      exit.set_reason(coatrack::v1::REASON_WORKER_LOST);
      exit.set_message("worker " + worker.name + " knows neither a process nor an exit of it");
      MarkGone(record, rank, exit, /*logs_complete=*/true, options_.gang, now);
      break;
    }
    case FindingKind::kGone:
      MarkGone(record, rank, std::nullopt, /*logs_complete=*/true, options_.gang, now);
      break;
  }
  if (record->version != version) Touch(record);
}

void Coordinator::ApplyCheckpoints(const coatrack::v1::SyncRequest& request) {
  for (const coatrack::v1::CheckpointReport& report : request.checkpoints()) {
    for (const std::string& id : checkpoints_.Report(report)) {
      JobRecord* record = jobs_.LiveById(id);
      if (record == nullptr || record->row.root_uuid() != report.root_uuid()) continue;
      const coatrack::v1::Checkpoint* newest = checkpoints_.Find(report.root_uuid(), id, -1);
      record->row.mutable_job()->set_checkpoint_step(newest == nullptr ? 0 : newest->step());
      record->row.mutable_job()->set_checkpoint_dir(newest == nullptr ? "" : newest->path());
      ++record->version;
      Touch(record);
    }
  }
}

std::vector<coatrack::v1::RankKey> Coordinator::Acknowledged(const std::string& worker) const {
  std::vector<coatrack::v1::RankKey> keys;
  const auto ends = reported_ends_.find(worker);
  if (ends == reported_ends_.end()) return keys;
  for (const auto& [key, delivered] : ends->second) {
    const JobRecord* record = jobs_.LiveById(key.job_id());
    const bool current = record != nullptr && record->row.job().attempt() == key.attempt() &&
                         key.rank() >= 0 && key.rank() < record->row.attempt().ranks_size() &&
                         record->row.attempt().ranks(key.rank()).worker() == worker;
    if (current) {
      const coatrack::v1::RankRow& rank = record->row.attempt().ranks(key.rank());
      // Its files may go when its end is durable and its output is here.
      if (!IsGone(rank) || !rank.logs_complete() ||
          record->committed_version < record->live[key.rank()].exit_version) {
        continue;
      }
    } else if (record != nullptr && !delivered) {
      continue;  // the last records of an attempt that is over belong to the curve all the same
    }
    keys.push_back(key);
  }
  return keys;
}

bool Coordinator::SyncReady(const WorkerRecord& worker, const PendingSync& sync,
                            int64_t now_ms) const {
  if (now_ms >= sync.deadline_ms || worker.revision > worker.sent_revision) return true;
  if (worker.revision > worker.applied_revision && now_ms >= sync.resend_ms) return true;
  return !Acknowledged(worker.name).empty();
}

void Coordinator::AnswerSync(const std::string& name, int64_t now_ms) {
  const auto sync = syncs_.find(name);
  WorkerRecord* worker = registry_.Find(name);
  if (sync == syncs_.end() || worker == nullptr || !SyncReady(*worker, sync->second, now_ms)) {
    return;
  }
  Later([done = std::move(sync->second.done), response = DesiredOf(worker)] { done(response); });
  syncs_.erase(sync);
}

coatrack::v1::SyncResponse Coordinator::DesiredOf(WorkerRecord* worker) {
  coatrack::v1::SyncResponse response;
  response.set_epoch(epoch_);
  response.set_revision(worker->revision);
  response.set_clean_required(!worker->clean);
  worker->sent_revision = worker->revision;
  for (const std::string& id : worker->jobs) {
    const JobRecord* record = jobs_.LiveById(id);
    if (record == nullptr) continue;
    for (int r = 0; r < record->row.attempt().ranks_size(); ++r) {
      if (record->row.attempt().ranks(r).worker() != worker->name || !Listed(*record, r)) continue;
      *response.add_ranks() = DesiredRankOf(*record, r);
      if (!followers_.contains({record->row.sequence(), r})) continue;
      coatrack::v1::LogDemand* demand = response.add_logs();
      *demand->mutable_key() = response.ranks(response.ranks_size() - 1).key();
      const auto end = log_ends_.find({id, record->row.job().attempt(), r});
      demand->set_offset(end == log_ends_.end() ? 0 : end->second);
    }
  }
  for (coatrack::v1::RankKey& key : Acknowledged(worker->name)) {
    *response.add_acknowledged() = std::move(key);
  }
  return response;
}

coatrack::v1::DesiredRank Coordinator::DesiredRankOf(const JobRecord& record, int rank) const {
  const coatrack::v1::AttemptRow& attempt = record.row.attempt();
  coatrack::v1::DesiredRank desired;
  desired.mutable_key()->set_job_id(record.id());
  desired.mutable_key()->set_attempt(record.row.job().attempt());
  desired.mutable_key()->set_rank(rank);
  desired.set_world_size(attempt.ranks_size());
  *desired.mutable_spec() = record.effective;
  desired.mutable_spec()->mutable_resources()->set_device(record.row.device());
  desired.set_device(attempt.ranks(rank).device());
  desired.set_threads(attempt.ranks(rank).threads());
  desired.set_root_uuid(record.row.root_uuid());
  desired.set_resume(attempt.resume());
  desired.set_stop(attempt.stop());
  desired.set_grace_seconds(static_cast<int32_t>(options_.gang.grace_ms / 1000));
  if (record.row.has_data_manifest()) {
    *desired.mutable_data_manifest() = record.row.data_manifest();
  }
  if (!attempt.resume().empty()) desired.add_pinned(attempt.resume());
  for (const int64_t sequence : holding_) {  // those that start from this job's checkpoints
    const JobRecord* other = jobs_.Live(sequence);
    if (other->effective.init_from().job() != record.id()) continue;
    if (!other->row.attempt().init_checkpoint().empty()) {
      desired.add_pinned(other->row.attempt().init_checkpoint());
    }
  }
  if (!attempt.init_checkpoint().empty()) {
    desired.set_init_job(record.effective.init_from().job());
    desired.set_init_checkpoint(attempt.init_checkpoint());
  }
  return desired;
}

}  // namespace coat
