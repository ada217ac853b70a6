#include "server/jobs/reason.h"
#include "server/loops/coordinator.h"
#include "server/loops/section.h"
#include "server/scheduler/decide.h"

namespace coat {
namespace {

// Until placement decides, `auto` shows the CPU's.
int64_t ShownBytes(const Coordinator::Submission& submission) {
  return submission.effective.resources().device() == coatrack::v1::DEVICE_KIND_GPU
             ? submission.gpu_bytes
             : submission.cpu_bytes;
}

// The job as it would be queued; not in the table.
JobRecord RecordOf(const Coordinator::Submission& submission, const std::string& id,
                   int64_t sequence, const JobTimes& now) {
  JobRecord record = NewJob(id, sequence, submission.submitted, submission.effective, now);
  record.row.set_request_hash(submission.request_hash);
  record.row.set_cpu_bytes(submission.cpu_bytes);
  record.row.set_gpu_bytes(submission.gpu_bytes);
  record.row.mutable_job()->set_request_id(submission.request_id);
  record.row.mutable_job()->set_predicted_bytes(ShownBytes(submission));
  return record;
}

}  // namespace

void Coordinator::Submit(Submission submission, Done<coatrack::v1::SubmitResponse> done) {
  Section section(this);
  const auto answer = [this, done](int64_t sequence, bool existed) {
    GetJob(sequence, [done, existed](Result<coatrack::v1::Job> job) {
      if (!job.ok()) return done(job.status());
      coatrack::v1::SubmitResponse response;
      *response.mutable_job() = std::move(*job);
      response.set_already_existed(existed);
      done(std::move(response));
    });
  };
  const auto refuse = [&](Status status) {
    Later([done, status = std::move(status)] { done(status); });
  };
  if (const Status status = CheckServing(); !status.ok()) return refuse(status);
  if (!submission.request_id.empty()) {
    if (const JobTable::Known* known = jobs_.FindRequest(submission.request_id)) {
      if (known->request_hash != submission.request_hash) {
        return refuse({Code::kAlreadyExists,
                       "request id '" + submission.request_id + "' belongs to job " + known->id +
                           ", whose spec differs; use a new request id for a new job"});
      }
      const int64_t sequence = known->sequence;
      const JobRecord* live = jobs_.Live(sequence);
      if (live == nullptr) return Later([answer, sequence] { answer(sequence, true); });
      return AfterCommit(*live, [answer, done, sequence](const Status& status) {
        status.ok() ? answer(sequence, true) : done(status);
      });
    }
  }
  if (submission.effective.has_init_from()) {
    const Result<JobTable::Known> source = jobs_.Resolve(submission.effective.init_from().job());
    if (!source.ok()) {
      return refuse({source.status().code(), "init_from.job: " + source.status().message()});
    }
  }
  if (static_cast<int32_t>(jobs_.live().size()) >= options_.queue_limit) {
    return refuse(
        {Code::kResourceExhausted, "the queue is full (" + std::to_string(jobs_.live().size()) +
                                       " live jobs); wait for some to end or raise queue_limit"});
  }
  const int64_t sequence = next_sequence_++;
  JobRecord* record = jobs_.Add(RecordOf(submission, parts_.new_job_id(), sequence, Now()));
  AfterCommit(*record, [answer, done, sequence](const Status& status) {
    status.ok() ? answer(sequence, false) : done(status);
  });
  Touch(record);
}

coatrack::v1::PlanResponse Coordinator::Place(const Submission& submission) {
  Snapshot snapshot;
  {
    Section section(this);
    const JobTimes now = Now();
    snapshot = TakeSnapshot(now);
    snapshot.jobs = {PendingOf(RecordOf(submission, "planned", next_sequence_, now), now)};
  }
  const Decision decision = Decide(snapshot);
  coatrack::v1::PlanResponse response;
  response.set_fits_now(!decision.placements.empty());
  if (decision.placements.empty()) {
    response.set_pending_reason(decision.waiting.front().reason);
    response.set_explanation(decision.waiting.front().message);
    return response;
  }
  response.set_explanation("starts at once if no earlier job is waiting");
  for (const PlacedRank& rank : decision.placements.front().ranks) {
    coatrack::v1::RankPlacement* shown = response.add_placement();
    shown->set_rank(response.placement_size() - 1);
    shown->set_worker(rank.worker);
    shown->set_device(rank.device);
  }
  return response;
}

std::vector<std::string> Coordinator::Warn(const Submission& submission) {
  std::shared_ptr<const Snapshot> workers;
  Snapshot snapshot;
  {
    Section section(this);
    const JobTimes now = Now();
    if (idle_workers_ == nullptr) {
      auto idle = std::make_shared<Snapshot>(TakeSnapshot(now));
      idle->reconciling = false;
      for (WorkerView& worker : idle->workers) {
        worker.usable = worker.registered;
        for (DeviceView& device : worker.devices) device.free = true;
      }
      idle_workers_ = std::move(idle);
    }
    workers = idle_workers_;
    snapshot.jobs = {PendingOf(RecordOf(submission, "warned", next_sequence_, now), now)};
  }
  snapshot.workers = workers->workers;
  const Decision decision = Decide(snapshot);
  std::vector<std::string> warnings;
  for (const Waiting& waiting : decision.waiting) {
    warnings.push_back(std::string(PendingReasonName(waiting.reason)) + ": " + waiting.message);
  }
  return warnings;
}

void Coordinator::Stop(const std::string& reference, bool now, const std::string& message,
                       Done<coatrack::v1::Job> done) {
  Section section(this);
  Status status = CheckServing();
  Result<JobTable::Known> known = jobs_.Resolve(reference);
  if (status.ok()) status = known.status();
  JobRecord* record = known.ok() ? jobs_.Live(known->sequence) : nullptr;
  if (status.ok() && (record == nullptr || record->terminal())) {
    const FinishedJob* ended = jobs_.Finished(known->sequence);
    status = {Code::kFailedPrecondition,
              "job " + known->id + " has ended already: " +
                  StateName(record != nullptr ? record->state() : ended->state)};
  }
  if (!status.ok()) return Later([done, status] { done(status); });
  const std::string text = message.empty() ? (now ? "killed" : "cancelled") : message;
  AskStop(record, coatrack::v1::REASON_CANCELLED, text,
          now ? coatrack::v1::STOP_MODE_NOW : coatrack::v1::STOP_MODE_CHECKPOINT, options_.gang,
          Now());
  const int64_t sequence = record->row.sequence();
  AfterCommit(*record, [this, done, sequence](const Status& committed) {
    committed.ok() ? GetJob(sequence, done) : done(committed);
  });
  Touch(record);
}

}  // namespace coat
