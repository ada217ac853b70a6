#include "server/jobs/gang.h"

#include <algorithm>

#include "server/jobs/reason.h"

namespace coat {
namespace {

using coatrack::v1::AttemptRow;
using coatrack::v1::RankRow;
using coatrack::v1::Reason;
using coatrack::v1::StopMode;

bool AllGone(const AttemptRow& attempt) {
  return std::all_of(attempt.ranks().begin(), attempt.ranks().end(), IsGone);
}

bool AllCompleted(const AttemptRow& attempt) {
  return std::all_of(attempt.ranks().begin(), attempt.ranks().end(), [](const RankRow& rank) {
    return rank.state() == coatrack::v1::RANK_ROW_STATE_GONE && rank.has_exit() &&
           rank.exit().reason() == coatrack::v1::REASON_COMPLETED;
  });
}

std::string RankText(const JobRecord& record, int rank) {
  return "rank " + std::to_string(rank) + " on " + record.row.attempt().ranks(rank).worker();
}

// Of the attempt as it would be if it ended with `reason` now.
RetryInput RetryInputOf(const JobRecord& record, Reason reason, const GangOptions& options) {
  const bool progressed = record.row.job().step() > record.row.attempt().first_step();
  RetryInput input;
  input.reason = reason;
  input.restarts = record.row.job().restarts();
  input.max_restarts = record.effective.max_restarts();
  input.failures_in_row = progressed ? 1 : record.row.failures_in_row() + 1;
  input.launch_failures_in_row =
      reason == coatrack::v1::REASON_LAUNCH_FAILED ? record.row.launch_failures_in_row() + 1 : 0;
  input.backoff_ms = options.retry_backoff_ms;
  return input;
}

void SetStop(JobRecord* record, StopMode mode, const GangOptions& options, const JobTimes& now) {
  AttemptRow* attempt = record->row.mutable_attempt();
  if (attempt->stop() == coatrack::v1::STOP_MODE_NOW) return;
  if (attempt->stop() == mode) return;
  attempt->set_stop(mode);
  record->stop_at_ms =
      mode == coatrack::v1::STOP_MODE_CHECKPOINT ? now.steady_ms + options.grace_ms : 0;
  ++record->version;
}

void EndForReason(JobRecord* record, Reason reason, const std::string& message, StopMode mode,
                  bool from_exits, const GangOptions& options, const JobTimes& now) {
  AttemptRow* attempt = record->row.mutable_attempt();
  if (attempt->ended()) return;
  attempt->set_ended(true);
  attempt->set_reason(reason);
  attempt->set_message(message);
  attempt->set_from_exits(from_exits);
  SetStop(record, mode, options, now);
  // Whether a retry is due is decided when the ranks are gone and the cause is known.
  if (ClassifyReason(reason) != ReasonClass::kFinal) {
    Move(record, Trigger::kAttemptFailed, reason, message, now);
  } else {
    record->row.set_stop_reason(reason);
    record->row.set_stop_message(message);
    Move(record, Trigger::kStopAsked, reason, message, now);
  }
}

// COMPLETED also for a rank that was killed before it could say anything.
Reason EndOf(const RankRow& rank) {
  if (rank.state() == coatrack::v1::RANK_ROW_STATE_ABANDONED) {
    return coatrack::v1::REASON_WORKER_LOST;
  }
  return rank.has_exit() ? rank.exit().reason() : coatrack::v1::REASON_COMPLETED;
}

// The rank whose exit explains the others', when a rank's exit ended the attempt.
void FindCause(JobRecord* record) {
  AttemptRow* attempt = record->row.mutable_attempt();
  if (!attempt->from_exits()) return;
  std::vector<Reason> reasons;
  for (const RankRow& rank : attempt->ranks()) reasons.push_back(EndOf(rank));
  const Reason primary = PrimaryReason(reasons);
  if (primary == coatrack::v1::REASON_COMPLETED || primary == attempt->reason()) return;
  for (int r = 0; r < attempt->ranks_size(); ++r) {
    if (reasons[r] != primary) continue;
    attempt->set_reason(primary);
    attempt->set_message(primary == coatrack::v1::REASON_WORKER_LOST
                             ? "worker " + attempt->ranks(r).worker() + " is lost"
                             : RankText(*record, r) + ": " + attempt->ranks(r).exit().message());
    return;
  }
}

std::string AbandonedText(const AttemptRow& attempt) {
  std::string text;
  for (const RankRow& rank : attempt.ranks()) {
    if (rank.state() != coatrack::v1::RANK_ROW_STATE_ABANDONED) continue;
    if (text.find(rank.worker()) != std::string::npos) continue;
    text += (text.empty() ? "; something may still run on " : ", ") + rank.worker();
  }
  return text;
}

// True when the end of every rank's output is here or no longer awaited.
bool LogsSettled(const JobRecord& record, const GangOptions& options, const JobTimes& now) {
  const auto& ranks = record.row.attempt().ranks();
  return now.steady_ms - record.gone_at_ms >= options.log_tail_wait_ms ||
         std::all_of(ranks.begin(), ranks.end(), [](const RankRow& rank) {
           return rank.logs_complete() || rank.state() == coatrack::v1::RANK_ROW_STATE_ABANDONED;
         });
}

std::string LogText(const JobRecord& record) {
  for (const RankRow& rank : record.row.attempt().ranks()) {
    if (!rank.logs_complete()) return "; the end of the output did not arrive (truncated)";
  }
  return "";
}

void Retry(JobRecord* record, const RetryInput& input, const RetryDecision& decision,
           const JobTimes& now) {
  coatrack::v1::JobRow* row = &record->row;
  const Reason reason = row->attempt().reason();
  const std::string message = row->attempt().message();
  row->set_failures_in_row(input.failures_in_row);
  row->set_launch_failures_in_row(input.launch_failures_in_row);
  if (decision.counts) row->mutable_job()->set_restarts(row->job().restarts() + 1);
  row->set_run_ms(RunMs(*record, now.steady_ms));
  row->clear_attempt();
  row->mutable_job()->clear_placement();
  record->live.clear();
  record->retry_at_ms = now.steady_ms + decision.delay_ms;
  Move(record, Trigger::kRetry, reason, message, now);
}

void FinishAttempt(JobRecord* record, const GangOptions& options, const JobTimes& now) {
  if (record->gone_at_ms == 0) record->gone_at_ms = now.steady_ms;
  const AttemptRow& attempt = record->row.attempt();
  const bool stopping = record->state() == coatrack::v1::JOB_STATE_STOPPING;
  const bool completed = AllCompleted(attempt);
  if (!completed) FindCause(record);
  RetryDecision decision;
  if (!completed && !stopping) {
    const RetryInput input = RetryInputOf(*record, attempt.reason(), options);
    decision = DecideRetry(input);
    if (decision.retry) return Retry(record, input, decision, now);
  }
  if (!LogsSettled(*record, options, now)) return;
  const std::string tail = AbandonedText(attempt) + LogText(*record);
  if (completed) {
    Move(record, Trigger::kSucceeded, coatrack::v1::REASON_COMPLETED, "completed" + tail, now);
  } else if (stopping && record->row.stop_reason() == coatrack::v1::REASON_CANCELLED) {
    Move(record, Trigger::kCancelled, coatrack::v1::REASON_CANCELLED,
         record->row.stop_message() + tail, now);
  } else if (stopping && record->row.stop_reason() == coatrack::v1::REASON_TIME_LIMIT) {
    Move(record, Trigger::kFailed, coatrack::v1::REASON_TIME_LIMIT,
         record->row.stop_message() + tail, now);
  } else {
    Move(record, Trigger::kFailed, attempt.reason(), attempt.message() + tail, now);
  }
}

}  // namespace

bool IsGone(const RankRow& rank) {
  return rank.state() == coatrack::v1::RANK_ROW_STATE_GONE ||
         rank.state() == coatrack::v1::RANK_ROW_STATE_ABANDONED;
}

bool Listed(const JobRecord& record, int rank) {
  const AttemptRow& attempt = record.row.attempt();
  if (!HoldsDevices(record.state()) || IsGone(attempt.ranks(rank))) return false;
  if (record.committed_attempt != record.row.job().attempt()) return false;
  switch (attempt.stop()) {
    case coatrack::v1::STOP_MODE_NOW: return false;
    case coatrack::v1::STOP_MODE_CHECKPOINT: return record.live[rank].seen_running;
    default: return true;
  }
}

int64_t RunMs(const JobRecord& record, int64_t steady_ms) {
  return record.row.run_ms() +
         (record.row.attempt().ranks_size() > 0 ? steady_ms - record.attempt_started_ms : 0);
}

void PlaceGang(JobRecord* record, const GangPlace& place, const JobTimes& now) {
  coatrack::v1::JobRow* row = &record->row;
  coatrack::v1::Job* job = row->mutable_job();
  row->set_device(place.device);
  row->set_root_uuid(place.root_uuid);
  job->set_attempt(job->attempt() + 1);
  job->set_step(place.resume_step);
  job->clear_placement();
  AttemptRow* attempt = row->mutable_attempt();
  attempt->Clear();
  attempt->set_resume(place.resume);
  attempt->set_first_step(place.resume_step);
  attempt->set_init_checkpoint(place.init_checkpoint);
  attempt->set_started_wall_ms(now.wall_ms);
  for (size_t r = 0; r < place.ranks.size(); ++r) {
    RankRow* rank = attempt->add_ranks();
    rank->set_worker(place.ranks[r].worker);
    rank->set_device(place.ranks[r].device);
    rank->set_threads(place.ranks[r].threads);
    rank->set_state(coatrack::v1::RANK_ROW_STATE_PLACED);
    coatrack::v1::RankPlacement* shown = job->add_placement();
    shown->set_rank(static_cast<int32_t>(r));
    shown->set_worker(place.ranks[r].worker);
    shown->set_device(place.ranks[r].device);
  }
  record->live.assign(place.ranks.size(), RankLive{});
  record->stop_at_ms = record->gone_at_ms = 0;
  record->step_seconds.clear();
  record->attempt_started_ms = now.steady_ms;
  Move(record, Trigger::kPlaced, coatrack::v1::REASON_UNSPECIFIED,
       "attempt " + std::to_string(job->attempt()) + " placed on " +
           std::to_string(place.ranks.size()) + (place.ranks.size() == 1 ? " device" : " devices") +
           (place.resume.empty() ? ", from the start" : ", from " + place.resume),
       now);
}

void MarkRunning(JobRecord* record, int rank, const coatrack::v1::RankReport* report,
                 const JobTimes& now) {
  RankRow* row = record->row.mutable_attempt()->mutable_ranks(rank);
  if (IsGone(*row)) return;
  RankLive& live = record->live[rank];
  live.seen_running = true;
  if (row->state() != coatrack::v1::RANK_ROW_STATE_RUNNING) {
    row->set_state(coatrack::v1::RANK_ROW_STATE_RUNNING);
    live.progress_at_ms = now.steady_ms;
    ++record->version;
  }
  if (report == nullptr) return;
  live.phase = report->phase();
  live.step = report->step();
  live.sequence = report->collective_sequence();
  live.progress_at_ms =
      now.steady_ms - static_cast<int64_t>(report->progress_age_seconds() * 1000.0);
  row->set_logs_complete(row->logs_complete() || report->logs_delivered());
  if (report->has_data_manifest() && !record->row.has_data_manifest()) {
    *record->row.mutable_data_manifest() = report->data_manifest();
    ++record->version;
  }
}

void MarkGone(JobRecord* record, int rank, const std::optional<coatrack::v1::RankExit>& exit,
              bool logs_complete, const GangOptions& options, const JobTimes& now) {
  RankRow* row = record->row.mutable_attempt()->mutable_ranks(rank);
  if (logs_complete && !row->logs_complete()) {
    row->set_logs_complete(true);
    ++record->version;
  }
  if (IsGone(*row)) return;
  row->set_state(coatrack::v1::RANK_ROW_STATE_GONE);
  if (exit.has_value()) *row->mutable_exit() = *exit;
  record->live[rank].exit_version = ++record->version;
  if (!exit.has_value()) {
    row->set_logs_complete(true);  // nothing ran, or nobody is left who could send its output
    return;
  }
  if (exit->reason() == coatrack::v1::REASON_COMPLETED || record->row.attempt().ended()) return;
  const bool stopped = exit->reason() == coatrack::v1::REASON_STOPPED;
  EndForReason(record, exit->reason(),
               RankText(*record, rank) + ": " +
                   (exit->message().empty() ? ReasonName(exit->reason()) : exit->message()),
               stopped ? coatrack::v1::STOP_MODE_CHECKPOINT : coatrack::v1::STOP_MODE_NOW,
               /*from_exits=*/true, options, now);
}

void AbandonWorker(JobRecord* record, const std::string& worker, const GangOptions& options,
                   const JobTimes& now) {
  bool any = false;
  for (RankRow& rank : *record->row.mutable_attempt()->mutable_ranks()) {
    if (rank.worker() != worker || IsGone(rank)) continue;
    rank.set_state(coatrack::v1::RANK_ROW_STATE_ABANDONED);
    any = true;
  }
  if (!any) return;
  ++record->version;
  EndForReason(record, coatrack::v1::REASON_WORKER_LOST, "worker " + worker + " is lost",
               coatrack::v1::STOP_MODE_NOW, /*from_exits=*/false, options, now);
}

void EndAttempt(JobRecord* record, Reason reason, const std::string& message, StopMode mode,
                const GangOptions& options, const JobTimes& now) {
  EndForReason(record, reason, message, mode, /*from_exits=*/false, options, now);
}

void AskStop(JobRecord* record, Reason reason, const std::string& message, StopMode mode,
             const GangOptions& options, const JobTimes& now) {
  coatrack::v1::JobRow* row = &record->row;
  if (record->terminal()) return;
  if (reason == coatrack::v1::REASON_CANCELLED) row->mutable_job()->set_cancel_requested(true);
  ++record->version;
  if (record->state() == coatrack::v1::JOB_STATE_PENDING) {
    return Move(record, Trigger::kCancelled, reason, message, now);
  }
  const bool was_stopping = record->state() == coatrack::v1::JOB_STATE_STOPPING;
  // What has not run yet has nothing to save.
  if (record->state() != coatrack::v1::JOB_STATE_RUNNING && !was_stopping) {
    mode = coatrack::v1::STOP_MODE_NOW;
  }
  if (row->stop_reason() == coatrack::v1::REASON_UNSPECIFIED) {
    row->set_stop_reason(reason);
    row->set_stop_message(message);
  }
  row->mutable_attempt()->set_ended(true);
  SetStop(record, mode, options, now);
  if (!was_stopping) Move(record, Trigger::kStopAsked, reason, message, now);
}

void Advance(JobRecord* record, const GangOptions& options, const JobTimes& now) {
  if (!HoldsDevices(record->state())) return;
  AttemptRow* attempt = record->row.mutable_attempt();
  if (record->stop_at_ms > 0 && now.steady_ms >= record->stop_at_ms) {
    SetStop(record, coatrack::v1::STOP_MODE_NOW, options, now);
  }
  if (record->state() == coatrack::v1::JOB_STATE_STARTING) {
    const bool started = std::all_of(
        attempt->ranks().begin(), attempt->ranks().end(),
        [](const RankRow& rank) { return rank.state() != coatrack::v1::RANK_ROW_STATE_PLACED; });
    if (started) {
      record->row.set_launch_failures_in_row(0);
      Move(record, Trigger::kAllRunning, coatrack::v1::REASON_UNSPECIFIED, "all ranks run", now);
    }
  }
  if (AllGone(*attempt)) FinishAttempt(record, options, now);
}

}  // namespace coat
