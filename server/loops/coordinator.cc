#include "server/loops/coordinator.h"

#include <algorithm>

#include "configs/spec/defaults.h"
#include "server/jobs/reason.h"
#include "server/loops/section.h"

namespace coat {
namespace {

constexpr int64_t kRewriteAfterMs = 1000;
constexpr int64_t kMaxElapsedMs = 10LL * 365 * 86'400'000;

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorParts parts, LoadedState state)
    : options_(options),
      parts_(std::move(parts)),
      epoch_(state.epoch),
      cluster_id_(state.cluster_id),
      refusal_(state.refusal),
      next_sequence_(state.last_sequence + 1),
      registry_(options.leases) {
  const JobTimes now = Now();
  reconcile_until_ms_ = now.steady_ms + options_.reconcile_wait_ms;
  for (const std::string& text : state.skipped) parts_.log("skipped a corrupt row: " + text);
  if (!refusal_.empty()) parts_.log("not scheduling: " + refusal_);
  for (FinishedJob& job : state.finished) jobs_.AddFinished(std::move(job));
  Section section(this);
  for (coatrack::v1::JobRow& row : state.live) Restore(std::move(row), now);
}

JobTimes Coordinator::Now() const { return {parts_.clock->SteadyMs(), parts_.clock->WallMs()}; }

bool Coordinator::Reconciling(int64_t now_ms) const {
  return !awaited_.empty() && now_ms < reconcile_until_ms_;
}

Status Coordinator::CheckServing() const {
  if (stopped_) return {Code::kUnavailable, "the coordinator stops"};
  if (!refusal_.empty()) return {Code::kUnavailable, "not scheduling: " + refusal_};
  return {};
}

void Coordinator::Restore(coatrack::v1::JobRow row, const JobTimes& now) {
  JobRecord record;
  record.effective = row.job().spec();
  const Violations violations = ApplyDefaults(&record.effective);
  record.row = std::move(row);
  record.version = record.written_version = record.committed_version = 1;
  record.committed_attempt = record.row.job().attempt();
  record.entered_ms = record.queued_ms = record.retry_at_ms = now.steady_ms;
  const coatrack::v1::AttemptRow& attempt = record.row.attempt();
  record.attempt_started_ms =
      now.steady_ms -
      std::clamp<int64_t>(now.wall_ms - attempt.started_wall_ms(), 0, kMaxElapsedMs);
  if (attempt.stop() == coatrack::v1::STOP_MODE_CHECKPOINT) {
    record.stop_at_ms = now.steady_ms + options_.gang.grace_ms;
  }
  for (const coatrack::v1::RankRow& rank : attempt.ranks()) {
    RankLive& live = record.live.emplace_back();
    live.seen_running = rank.state() == coatrack::v1::RANK_ROW_STATE_RUNNING;
    live.progress_at_ms = now.steady_ms;
    if (IsGone(rank)) continue;
    registry_.Expect(rank.worker(), now.steady_ms);
    awaited_.insert(rank.worker());
  }
  JobRecord* kept = jobs_.Add(std::move(record));
  // Revisions grow over epochs, so that what an earlier term had applied never counts as ours.
  for (const coatrack::v1::RankRow& rank : kept->row.attempt().ranks()) {
    WorkerRecord* worker = registry_.Find(rank.worker());
    if (worker != nullptr && worker->revision == 0) {
      worker->revision = static_cast<uint64_t>(epoch_) << 32;
    }
  }
  if (!violations.empty() && kept->state() == coatrack::v1::JOB_STATE_PENDING) {
    Move(kept, Trigger::kFailed, coatrack::v1::REASON_USER_ERROR,
         "this version refuses the spec: " + FormatViolations(violations), now);
  }
  Touch(kept);
}

void Coordinator::Touch(JobRecord* record) {
  const JobTimes now = Now();
  Advance(record, options_.gang, now);
  RefreshDesired(record);
  const int64_t sequence = record->row.sequence();
  if (HoldsDevices(record->state())) {
    holding_.insert(sequence);
  } else {
    if (holding_.erase(sequence) > 0 && record->terminal()) {
      ended_.emplace_back(now.steady_ms, ShownOf(*record));
      ForgetEnded(now.steady_ms);
    }
    rendezvous_.Clear(record->id());
  }
  if (record->version > record->written_version) changed_.insert(sequence);
  waiters_.Notify(JobTopic(sequence), &ready_);
  DispatchSoon();
}

void Coordinator::RefreshDesired(JobRecord* record) {
  const coatrack::v1::AttemptRow& attempt = record->row.attempt();
  std::set<std::string> occupied;
  for (int r = 0; r < attempt.ranks_size(); ++r) {
    WorkerRecord* worker = registry_.Find(attempt.ranks(r).worker());
    if (worker == nullptr) continue;
    const bool gone = IsGone(attempt.ranks(r));
    if (!gone) occupied.insert(worker->name);
    RankLive& live = record->live[r];
    const bool listed = Listed(*record, r);
    const bool leaves = !listed && !gone && attempt.ended() && live.unlisted_revision == 0;
    if (listed == live.told && live.told_stop == attempt.stop() && !leaves) continue;
    live.told = listed;
    live.told_stop = attempt.stop();
    ++worker->revision;
    if (leaves) live.unlisted_revision = worker->revision;
    woken_.insert(worker->name);
  }
  for (const std::string& name : occupied) registry_.Find(name)->jobs.insert(record->id());
  for (const std::string& name : record->workers) {
    WorkerRecord* worker = registry_.Find(name);
    if (occupied.contains(name) || worker == nullptr) continue;
    worker->jobs.erase(record->id());
    ++worker->revision;
    woken_.insert(name);
  }
  record->workers = std::move(occupied);
}

void Coordinator::DispatchSoon() {
  if (dispatch_due_) return;
  dispatch_due_ = true;
  if (dispatch_signal_) Later(dispatch_signal_);
}

void Coordinator::SetDispatchSignal(std::function<void()> signal) {
  Section section(this);
  dispatch_signal_ = std::move(signal);
}

void Coordinator::WriteChanged() {
  if (rewrite_at_ms_ > 0) return;  // the disk is full: Tick tries again
  for (const int64_t sequence : std::exchange(changed_, {})) {
    JobRecord* record = jobs_.Live(sequence);
    if (record == nullptr || record->version == record->written_version) continue;
    record->written_version = record->version;
    JobChange change{record->row, record->uncommitted};
    const uint64_t version = record->version;
    const int64_t event_sequence = record->row.event_sequence();
    const int32_t attempt = record->row.job().attempt();
    parts_.store->Commit(std::move(change), [=, this](const Status& status) {
      Committed(sequence, version, event_sequence, attempt, status);
    });
  }
}

void Coordinator::AfterCommit(const JobRecord& record, std::function<void(const Status&)> call) {
  if (record.committed_version >= record.version) return Later([call] { call({}); });
  commit_waiters_[record.row.sequence()].push_back({record.version, std::move(call)});
}

void Coordinator::Committed(int64_t sequence, uint64_t version, int64_t event_sequence,
                            int32_t attempt, const Status& status) {
  Section section(this);
  JobRecord* record = jobs_.Live(sequence);
  auto& waiting = commit_waiters_[sequence];
  std::erase_if(waiting, [&](CommitWaiter& waiter) {
    if (waiter.version > version) return false;
    Later([call = std::move(waiter.call), status] { call(status); });
    return true;
  });
  if (waiting.empty()) commit_waiters_.erase(sequence);
  storage_error_ = status.ok() ? "" : status.message();
  if (record == nullptr) return;
  if (!status.ok()) {
    parts_.log("job " + record->id() + ": not written: " + status.message());
    if (record->committed_version == 0) return jobs_.Remove(sequence);  // never answered
    record->written_version = record->committed_version;
    changed_.insert(sequence);
    rewrite_at_ms_ = Now().steady_ms + kRewriteAfterMs;
    return;
  }
  record->committed_version = std::max(record->committed_version, version);
  record->committed_attempt = std::max(record->committed_attempt, attempt);
  std::erase_if(record->uncommitted, [&](const coatrack::v1::JobEvent& event) {
    return event.sequence() <= event_sequence;
  });
  RefreshDesired(record);  // launches wait for this
  for (const coatrack::v1::RankRow& rank : record->row.attempt().ranks()) {
    woken_.insert(rank.worker());  // exits may be acknowledged
  }
  if (record->terminal() && record->committed_version == record->version) {
    ++counters_.finished[{record->state(), record->row.job().reason()}];
    const std::string id = record->id();
    std::erase_if(log_ends_, [&](const auto& entry) { return entry.first.job == id; });
    std::erase_if(record_offsets_,
                  [&](const auto& entry) { return std::get<0>(entry.first) == id; });
    jobs_.Finish(sequence);
    waiters_.Notify(LogsTopic(id), &ready_);
    waiters_.Notify(RecordsTopic(id), &ready_);
  }
  waiters_.Notify(JobTopic(sequence), &ready_);
  DispatchSoon();
}

bool Coordinator::Stopped() {
  Section section(this);
  return stopped_;
}

void Coordinator::Shutdown() {
  Section section(this);
  stopped_ = true;
  waiters_.ReleaseAll(&ready_);
  for (auto& [worker, sync] : syncs_) {
    Later([done = std::move(sync.done)] {
      done(Status(Code::kUnavailable, "the coordinator stops"));
    });
  }
  syncs_.clear();
}

}  // namespace coat
