#include <algorithm>
#include <deque>

#include "server/loops/coordinator.h"
#include "server/loops/section.h"
#include "server/workers/stall.h"

namespace coat {
namespace {

constexpr size_t kStepTimes = 32;  // for medians: of the stall limit and of the speed
constexpr int64_t kMaxRendezvousWaitMs = 20'000;

std::string RendezvousTopic(const std::string& job, int32_t attempt) {
  return "rendezvous/" + job + "/" + std::to_string(attempt);
}

// Values without a new one stay.
void MergeLatest(const coatrack::v1::StepRecord& step, coatrack::v1::StepRecord* latest) {
  if (step.memory_size() > 0) latest->clear_memory();
  if (step.memory_planned_size() > 0) latest->clear_memory_planned();
  if (step.memory_planned_bf16_size() > 0) latest->clear_memory_planned_bf16();
  if (step.health_size() > 0) latest->clear_health();
  latest->clear_expansion_k_m();
  latest->clear_expansion_k_v();
  latest->MergeFrom(step);
}

}  // namespace

Result<JobRecord*> Coordinator::Fence(const coatrack::v1::RankKey& key, const std::string& worker) {
  RETURN_IF_ERROR(CheckServing());
  JobRecord* record = jobs_.LiveById(key.job_id());
  if (record == nullptr) return Status(Code::kNotFound, "no live job '" + key.job_id() + "'");
  if (key.attempt() != record->row.job().attempt()) {
    return Status(Code::kAborted, "job " + key.job_id() + " is at attempt " +
                                      std::to_string(record->row.job().attempt()) + ", not " +
                                      std::to_string(key.attempt()));
  }
  const auto& ranks = record->row.attempt().ranks();
  if (key.rank() < 0 || (!ranks.empty() && key.rank() >= ranks.size()) ||
      (!ranks.empty() && !worker.empty() && ranks[key.rank()].worker() != worker)) {
    return Status(Code::kAborted, "rank " + std::to_string(key.rank()) + " of job " + key.job_id() +
                                      " is not on worker '" + worker + "'");
  }
  return record;
}

void Coordinator::PushRecords(const coatrack::v1::PushRecordsRequest& request,
                              Done<coatrack::v1::PushRecordsResponse> done) {
  Section section(this);
  const coatrack::v1::RankKey& key = request.key();
  coatrack::v1::PushRecordsResponse response;
  response.set_acknowledged_offset(request.next_offset());
  Result<JobRecord*> record = Fence(key, request.worker());
  if (!record.ok()) {
    // The last records of a job or an attempt that has just ended are still welcome to the curves:
    // they carry their attempt, so they never replace those of a later one.
    const Result<JobTable::Known> known = jobs_.Resolve(key.job_id());
    const JobRecord* live = jobs_.LiveById(key.job_id());
    const bool ended =
        (known.ok() && jobs_.Finished(known->sequence) != nullptr) ||
        (live != nullptr && key.attempt() > 0 && key.attempt() < live->row.job().attempt());
    if (!ended) return Later([done, status = record.status()] { done(status); });
  } else if (const WorkerRecord* worker = registry_.Find(request.worker());
             worker != nullptr && worker->incarnation != request.incarnation()) {
    // An incarnation that has not reported yet (to this coordinator) is told to try again: were it
    // refused, the records of a rank that ended meanwhile would be given up.
    const auto& retired = worker->retired;
    const bool replaced =
        std::find(retired.begin(), retired.end(), request.incarnation()) != retired.end();
    const Status status(replaced ? Code::kAborted : Code::kUnavailable,
                        replaced ? "a newer incarnation of the worker has reported"
                                 : "this incarnation of the worker has not reported yet");
    return Later([done, status] { done(status); });
  }
  int64_t& offset = record_offsets_[{key.job_id(), key.attempt(), key.rank()}];
  if (request.next_offset() != 0 && request.next_offset() <= offset) {
    return Later([done, response] { done(response); });
  }
  const JobTimes now = Now();
  std::vector<coatrack::v1::StepRecord> records;
  for (const coatrack::v1::StepRecord& step : request.records()) {
    records.push_back(step);
    records.back().set_attempt(key.attempt());
    records.back().set_rank(key.rank());
    if (record.ok()) ApplyRecord(*record, records.back(), now);
  }
  if (record.ok()) waiters_.Notify(JobTopic((*record)->row.sequence()), &ready_);
  parts_.journal->AppendRecords(
      key.job_id(), std::move(records), [this, done, response, key](const Status& status) {
        {
          Section append(this);
          if (status.ok()) {
            int64_t& end = record_offsets_[{key.job_id(), key.attempt(), key.rank()}];
            end = std::max(end, response.acknowledged_offset());
          }
          if (jobs_.LiveById(key.job_id()) == nullptr) {
            record_offsets_.erase({key.job_id(), key.attempt(), key.rank()});
          }
          waiters_.Notify(RecordsTopic(key.job_id()), &ready_);
        }
        status.ok() ? done(response) : done(status);
      });
}

void Coordinator::ApplyRecord(JobRecord* record, const coatrack::v1::StepRecord& step,
                              const JobTimes& now) {
  if (step.rank() < static_cast<int32_t>(record->live.size())) {
    RankLive& live = record->live[step.rank()];
    live.phase = step.phase();
    live.step = step.step();
    live.sequence = std::max(live.sequence, step.collective_sequence());
    live.progress_at_ms = now.steady_ms;
  }
  if (step.rank() != 0) return;
  MergeLatest(step, &record->latest);
  coatrack::v1::Job* job = record->row.mutable_job();
  job->set_step(step.step());
  if (step.has_loss()) job->set_loss(step.loss());
  if (step.has_validation_loss()) job->set_validation_loss(step.validation_loss());
  if (step.step_seconds() > 0) {
    std::deque<double>& times = record->step_seconds;
    times.push_back(step.step_seconds());
    if (times.size() > kStepTimes) times.pop_front();
    // Not of this step alone: one with telemetry takes longer.
    job->set_tokens_per_second(static_cast<double>(step.tokens()) /
                               MedianSeconds({times.begin(), times.end()}));
  }
  if (!step.checkpoint().empty()) {
    checkpoints_.Add(record->row.root_uuid(), record->id(), step.checkpoint(),
                     step.checkpoint_bytes(), now.wall_ms);
    job->set_checkpoint_step(step.step());
    job->set_checkpoint_dir(step.checkpoint());
    ++record->checkpoints_total;
    ++record->version;
    Touch(record);
  }
}

void Coordinator::PushLogs(const coatrack::v1::PushLogsRequest& request,
                           Done<coatrack::v1::PushLogsResponse> done) {
  Section section(this);
  const coatrack::v1::RankKey& key = request.key();
  const Result<JobTable::Known> known = jobs_.Resolve(key.job_id());
  const JobRecord* record = known.ok() ? jobs_.Live(known->sequence) : nullptr;
  Status status = CheckServing();
  if (status.ok()) status = known.status();
  if (status.ok() && record != nullptr && key.attempt() > record->row.job().attempt()) {
    status = {Code::kAborted,
              "job " + key.job_id() + " has no attempt " + std::to_string(key.attempt()) + " yet"};
  }
  if (!status.ok()) return Later([done, status] { done(status); });
  const LogKey log{known->id, key.attempt(), key.rank()};
  LogPiece piece{request.offset(), request.data(), request.final(), request.truncated()};
  const bool final = request.final();
  parts_.journal->AppendLog(
      log, std::move(piece), Now().wall_ms, [this, done, log, final](Result<int64_t> end) {
        if (!end.ok()) return done(end.status());
        {
          Section append(this);
          JobRecord* live = jobs_.LiveById(log.job);
          if (live != nullptr) {
            log_ends_[log] = *end;
            if (final && live->row.job().attempt() == log.attempt &&
                log.rank < live->row.attempt().ranks_size()) {
              live->row.mutable_attempt()->mutable_ranks(log.rank)->set_logs_complete(true);
              ++live->version;
              Touch(live);
              woken_.insert(live->row.attempt().ranks_size() > log.rank
                                ? live->row.attempt().ranks(log.rank).worker()
                                : "");
            }
          }
          waiters_.Notify(LogsTopic(log.job), &ready_);
        }
        coatrack::v1::PushLogsResponse response;
        response.set_next_offset(*end);
        done(std::move(response));
      });
}

void Coordinator::FollowLogs(int64_t sequence, int32_t rank) {
  Section section(this);
  if (++followers_[{sequence, rank}] > 1) return;
  const JobRecord* record = jobs_.Live(sequence);
  if (record == nullptr || rank >= record->row.attempt().ranks_size()) return;
  if (WorkerRecord* worker = registry_.Find(record->row.attempt().ranks(rank).worker())) {
    ++worker->revision;
    woken_.insert(worker->name);
  }
}

void Coordinator::UnfollowLogs(int64_t sequence, int32_t rank) {
  Section section(this);
  const auto found = followers_.find({sequence, rank});
  if (found != followers_.end() && --found->second <= 0) followers_.erase(found);
}

Status Coordinator::PutRendezvous(const coatrack::v1::PutRendezvousRequest& request) {
  Section section(this);
  coatrack::v1::RankKey key;
  key.set_job_id(request.job_id());
  key.set_attempt(request.attempt());
  ASSIGN_OR_RETURN(JobRecord * record, Fence(key, ""));
  if (record->row.attempt().ended() || record->row.attempt().ranks().empty()) {
    return {Code::kAborted,
            "attempt " + std::to_string(key.attempt()) + " of job " + record->id() + " has ended"};
  }
  RETURN_IF_ERROR(rendezvous_.Put(record->id(), request.attempt(), request.key(), request.value()));
  waiters_.Notify(RendezvousTopic(record->id(), request.attempt()), &ready_);
  return {};
}

void Coordinator::GetRendezvous(const coatrack::v1::GetRendezvousRequest& request,
                                Done<coatrack::v1::GetRendezvousResponse> done) {
  Section section(this);
  coatrack::v1::RankKey key;
  key.set_job_id(request.job_id());
  key.set_attempt(request.attempt());
  Result<JobRecord*> record = Fence(key, "");
  Status status = record.status();
  if (status.ok() &&
      ((*record)->row.attempt().ended() || (*record)->row.attempt().ranks().empty())) {
    status = {Code::kAborted, "attempt " + std::to_string(key.attempt()) + " of job " +
                                  request.job_id() + " has ended"};
  }
  if (!status.ok()) return Later([done, status] { done(status); });
  const int64_t now_ms = Now().steady_ms;
  const auto values = rendezvous_.Get(request.job_id(), request.attempt(),
                                      {request.keys().begin(), request.keys().end()}, now_ms);
  const int64_t wait_ms = std::min<int64_t>(request.max_wait_ms(), kMaxRendezvousWaitMs);
  if (static_cast<int>(values.size()) < request.keys_size() && wait_ms > 0) {
    const std::string topic = RendezvousTopic(request.job_id(), request.attempt());
    const int64_t deadline_ms = now_ms + wait_ms;
    return waiters_.Wait(
        topic, waiters_.Version(topic), deadline_ms,
        [this, request, done, deadline_ms] {
          coatrack::v1::GetRendezvousRequest again = request;
          const int64_t left_ms = deadline_ms - parts_.clock->SteadyMs();
          again.set_max_wait_ms(static_cast<int32_t>(std::max<int64_t>(0, left_ms)));
          GetRendezvous(again, done);
        },
        &ready_);
  }
  coatrack::v1::GetRendezvousResponse response;
  for (const auto& [name, value] : values) (*response.mutable_values())[name] = value;
  Later([done, response = std::move(response)] { done(response); });
}

}  // namespace coat
