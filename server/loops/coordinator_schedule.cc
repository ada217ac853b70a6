#include <algorithm>
#include <chrono>

#include "configs/spec/defaults.h"
#include "server/loops/coordinator.h"
#include "server/loops/section.h"
#include "server/scheduler/decide.h"

namespace coat {

std::map<std::pair<std::string, std::string>, std::string> Coordinator::HeldDevices() const {
  std::map<std::pair<std::string, std::string>, std::string> held;
  for (const int64_t sequence : holding_) {
    const JobRecord* record = jobs_.Live(sequence);
    for (const coatrack::v1::RankRow& rank : record->row.attempt().ranks()) {
      if (!IsGone(rank)) held[{rank.worker(), rank.device()}] = record->id();
    }
  }
  return held;
}

Snapshot Coordinator::TakeSnapshot(const JobTimes& now) const {
  Snapshot snapshot;
  snapshot.now_ms = now.steady_ms;
  snapshot.reconciling = Reconciling(now.steady_ms);
  const auto held = HeldDevices();
  for (const auto& [name, worker] : registry_.workers()) {
    WorkerView& view = snapshot.workers.emplace_back();
    view.name = name;
    view.usable = worker.state == coatrack::v1::WORKER_STATE_READY;
    view.registered = !worker.incarnation.empty() && !worker.lost && !worker.draining &&
                      worker.drained_reason.empty();
    view.failed_launches = worker.failed_launches;
    view.labels = worker.labels;
    for (const coatrack::v1::StorageRoot& root : worker.roots)
      view.roots[root.name()] = root.uuid();
    for (const coatrack::v1::Device& device : worker.devices) {
      DeviceView& shown = view.devices.emplace_back();
      shown.id = device.id();
      shown.kind = device.kind();
      shown.total_bytes = device.total_bytes();
      shown.threads = device.threads();
      const auto holder = held.find({name, device.id()});
      shown.free = holder == held.end() && !worker.busy_devices.contains(device.id());
      if (holder == held.end()) continue;
      const JobRecord* record = jobs_.LiveById(holder->second);
      if (!record->effective.resources().has_time_limit()) continue;
      const int64_t left_ms =
          DurationMs(record->effective.resources().time_limit()) - RunMs(*record, now.steady_ms);
      shown.frees_at_ms = now.steady_ms + std::max<int64_t>(0, left_ms) + options_.gang.grace_ms;
    }
  }
  return snapshot;
}

PendingJob Coordinator::PendingOf(const JobRecord& record, const JobTimes& now) const {
  const coatrack::v1::JobSpec& spec = record.effective;
  PendingJob job;
  job.id = record.id();
  job.sequence = record.row.sequence();
  job.priority = spec.priority();
  job.ranks = spec.resources().ranks();
  job.device = record.row.device() != coatrack::v1::DEVICE_KIND_UNSPECIFIED
                   ? record.row.device()
                   : spec.resources().device();
  job.cpu_bytes = record.row.cpu_bytes();
  job.gpu_bytes = record.row.gpu_bytes();
  job.root = spec.checkpoint().root();
  job.root_uuid = record.row.root_uuid();
  job.labels.insert(spec.resources().worker_labels().begin(),
                    spec.resources().worker_labels().end());
  if (spec.resources().has_time_limit()) {
    job.time_limit_ms = std::max<int64_t>(
        1, DurationMs(spec.resources().time_limit()) - RunMs(record, now.steady_ms));
  }
  job.not_before_ms = record.retry_at_ms;
  if (spec.has_init_from() && job.root_uuid.empty()) {
    const int64_t step = spec.init_from().has_step() ? spec.init_from().step() : -1;
    const std::vector<std::string> roots = checkpoints_.RootsOf(spec.init_from().job(), step);
    if (!roots.empty()) {
      job.root_uuid = roots.front();
    } else {
      job.storage_problem = "no worker sees a complete checkpoint" +
                            (step < 0 ? "" : " of step " + std::to_string(step)) + " of job " +
                            spec.init_from().job() + ", which init_from names";
    }
  }
  return job;
}

void Coordinator::AddPending(const JobTimes& now, Snapshot* snapshot) {
  dispatch_at_ms_ = snapshot->reconciling ? reconcile_until_ms_ : 0;
  for (const auto& [sequence, record] : jobs_.live()) {
    if (record.state() != coatrack::v1::JOB_STATE_PENDING || record.committed_version == 0) {
      continue;
    }
    snapshot->jobs.push_back(PendingOf(record, now));
    const int64_t retry_ms = record.retry_at_ms;
    if (retry_ms > now.steady_ms && (dispatch_at_ms_ == 0 || retry_ms < dispatch_at_ms_)) {
      dispatch_at_ms_ = retry_ms;
    }
  }
}

bool Coordinator::Dispatch() {
  Snapshot snapshot;
  {
    Section section(this);
    if (!dispatch_due_ || dispatch_running_ || !CheckServing().ok()) return false;
    dispatch_due_ = false;
    const JobTimes now = Now();
    snapshot = TakeSnapshot(now);
    AddPending(now, &snapshot);
    if (snapshot.jobs.empty()) return true;
    dispatch_running_ = true;
  }
  const auto started = std::chrono::steady_clock::now();
  const Decision decision = Decide(snapshot);
  const std::chrono::duration<double> cycle = std::chrono::steady_clock::now() - started;

  Section section(this);
  dispatch_running_ = false;
  counters_.cycle.Observe(cycle.count());
  const JobTimes now = Now();
  for (const Placement& placement : decision.placements) {
    if (!ApplyPlacement(placement, now)) DispatchSoon();
  }
  for (const Waiting& waiting : decision.waiting) {
    JobRecord* record = jobs_.LiveById(waiting.job);
    if (record == nullptr || record->state() != coatrack::v1::JOB_STATE_PENDING) continue;
    coatrack::v1::Job* job = record->row.mutable_job();
    const bool changed = job->pending_reason() != waiting.reason;
    job->set_pending_reason(waiting.reason);
    job->set_message(waiting.message);
    if (changed) waiters_.Notify(JobTopic(record->row.sequence()), &ready_);
  }
  return true;
}

bool Coordinator::ApplyPlacement(const Placement& placement, const JobTimes& now) {
  JobRecord* record = jobs_.LiveById(placement.job);
  if (record == nullptr || record->state() != coatrack::v1::JOB_STATE_PENDING) return true;
  const auto held = HeldDevices();
  for (const PlacedRank& rank : placement.ranks) {
    const WorkerRecord* worker = registry_.Find(rank.worker);
    if (worker == nullptr || worker->state != coatrack::v1::WORKER_STATE_READY ||
        held.contains({rank.worker, rank.device}) || worker->busy_devices.contains(rank.device)) {
      return false;  // the world has moved since the snapshot
    }
  }
  counters_.queue_wait.Observe(static_cast<double>(now.steady_ms - record->queued_ms) / 1000.0);
  const GangPlace place = PlaceOf(*record, placement);
  record->row.mutable_job()->set_predicted_bytes(placement.device == coatrack::v1::DEVICE_KIND_GPU
                                                     ? record->row.gpu_bytes()
                                                     : record->row.cpu_bytes());
  PlaceGang(record, place, now);
  Touch(record);
  return true;
}

GangPlace Coordinator::PlaceOf(const JobRecord& record, const Placement& placement) const {
  GangPlace place;
  place.device = placement.device;
  place.root_uuid = placement.root_uuid;
  for (const PlacedRank& rank : placement.ranks) {
    place.ranks.push_back({rank.worker, rank.device, rank.threads});
  }
  const coatrack::v1::Checkpoint* newest = checkpoints_.Find(placement.root_uuid, record.id(), -1);
  if (newest != nullptr) {
    place.resume = DirectoryName(newest->path());
    place.resume_step = newest->step();
    return place;
  }
  if (record.effective.has_init_from()) {
    const coatrack::v1::InitFrom& from = record.effective.init_from();
    const coatrack::v1::Checkpoint* source =
        checkpoints_.Find(placement.root_uuid, from.job(), from.has_step() ? from.step() : -1);
    if (source != nullptr) place.init_checkpoint = DirectoryName(source->path());
  }
  return place;
}

}  // namespace coat
