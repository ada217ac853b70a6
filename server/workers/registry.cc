#include "server/workers/registry.h"

#include <algorithm>

#include "configs/base/units.h"

namespace coat {
namespace {

constexpr size_t kMaxRetired = 16;
constexpr size_t kMaxNameBytes = 253;
constexpr int kMaxDevices = 256;

Status CheckRequest(const coatrack::v1::SyncRequest& request) {
  if (request.worker().empty() || request.worker().size() > kMaxNameBytes) {
    return {Code::kInvalidArgument, "worker: a name of 1 to 253 bytes is required"};
  }
  if (request.incarnation().empty()) {
    return {Code::kInvalidArgument, "incarnation: required; new at each start of the daemon"};
  }
  if (request.devices_size() > kMaxDevices) {
    return {Code::kInvalidArgument, "devices: at most 256 on one worker"};
  }
  std::set<std::string> ids;
  for (const auto& device : request.devices()) {
    if (!ids.insert(device.id()).second) {
      return {Code::kInvalidArgument, "devices: '" + device.id() + "' is listed twice"};
    }
  }
  return {};
}

}  // namespace

void Registry::Expect(const std::string& name, int64_t now_ms) {
  WorkerRecord& worker = workers_[name];
  worker.name = name;
  worker.heard_ms = now_ms;
  worker.message = "has not reported since the coordinator started";
}

Result<Registry::Heard> Registry::Hear(const coatrack::v1::SyncRequest& request, int64_t now_ms) {
  RETURN_IF_ERROR(CheckRequest(request));
  auto found = workers_.find(request.worker());
  if (found == workers_.end()) {
    if (static_cast<int32_t>(workers_.size()) >= options_.max_workers) {
      return Status(Code::kResourceExhausted,
                    "already " + std::to_string(workers_.size()) +
                        " workers; raise max_workers in the server's configuration");
    }
    found = workers_.try_emplace(request.worker()).first;
    found->second.name = request.worker();
  }
  WorkerRecord& worker = found->second;
  Heard heard{&worker, false};
  if (std::find(worker.retired.begin(), worker.retired.end(), request.incarnation()) !=
      worker.retired.end()) {
    return Status(Code::kAborted, "worker '" + worker.name +
                                      "' has a newer incarnation; two daemons must not share a "
                                      "name, set `name` in the worker's configuration");
  }
  if (worker.incarnation != request.incarnation()) {
    heard.fresh = true;
    if (!worker.incarnation.empty()) worker.retired.push_back(worker.incarnation);
    if (worker.retired.size() > kMaxRetired) worker.retired.pop_front();
    worker.incarnation = request.incarnation();
    worker.drained_reason.clear();
    worker.failed_launches = 0;
    worker.sent_revision = 0;
  }
  if (worker.state == coatrack::v1::WORKER_STATE_UNREACHABLE) heard.fresh = true;
  if (heard.fresh) worker.clean = false;
  worker.heard_ms = now_ms;
  worker.silent_since_ms = 0;
  worker.lost = false;
  worker.draining = request.draining();
  worker.message = request.drain_reason();
  worker.address = request.address();
  worker.metrics_address = request.metrics_address();
  worker.version = request.version();
  worker.devices.assign(request.devices().begin(), request.devices().end());
  worker.roots.assign(request.roots().begin(), request.roots().end());
  worker.labels.clear();
  worker.labels.insert(request.labels().begin(), request.labels().end());
  worker.applied_revision = request.applied_revision();
  worker.busy_devices.clear();
  for (const auto& rank : request.ranks()) {
    if (rank.state() == coatrack::v1::RANK_STATE_RUNNING) worker.busy_devices.insert(rank.device());
  }
  for (const auto& device : request.devices()) {  // a process may outlive its rank's record
    if (!device.job_id().empty()) worker.busy_devices.insert(device.id());
  }
  UpdateState(&worker);
  return heard;
}

void Registry::Settle(WorkerRecord* worker, bool undesired) {
  if (!undesired) worker->clean = true;
  UpdateState(worker);
}

void Registry::UpdateState(WorkerRecord* worker) {
  if (!worker->clean) {
    worker->state = coatrack::v1::WORKER_STATE_CLEANING;
    worker->message = "came back; what is not desired there is being killed";
  } else if (worker->draining) {
    const bool empty = worker->jobs.empty() && worker->busy_devices.empty();
    worker->state =
        empty ? coatrack::v1::WORKER_STATE_DRAINED : coatrack::v1::WORKER_STATE_DRAINING;
    if (worker->message.empty()) worker->message = "the daemon drains";
  } else if (!worker->drained_reason.empty()) {
    worker->state = worker->jobs.empty() ? coatrack::v1::WORKER_STATE_DRAINED
                                         : coatrack::v1::WORKER_STATE_DRAINING;
    worker->message = worker->drained_reason;
  } else {
    worker->state = coatrack::v1::WORKER_STATE_READY;
    worker->message.clear();
  }
}

std::vector<RegistryEvent> Registry::Expire(int64_t now_ms) {
  std::vector<RegistryEvent> events;
  for (auto it = workers_.begin(); it != workers_.end();) {
    WorkerRecord& worker = it->second;
    if (worker.state != coatrack::v1::WORKER_STATE_UNREACHABLE &&
        now_ms - worker.heard_ms > options_.lease_ms) {
      worker.state = coatrack::v1::WORKER_STATE_UNREACHABLE;
      worker.silent_since_ms = now_ms;
      worker.message = "silent for more than " + FormatDurationMs(options_.lease_ms);
      worker.clean = false;
      events.push_back({worker.name, false});
    }
    if (worker.state == coatrack::v1::WORKER_STATE_UNREACHABLE && !worker.lost &&
        now_ms - worker.silent_since_ms >= options_.lost_after_ms) {
      worker.lost = true;
      worker.message = "lost: silent for more than " +
                       FormatDurationMs(options_.lease_ms + options_.lost_after_ms);
      events.push_back({worker.name, true});
    }
    const bool forget =
        worker.lost && worker.jobs.empty() && now_ms - worker.heard_ms > options_.forget_after_ms;
    it = forget ? workers_.erase(it) : std::next(it);
  }
  return events;
}

void Registry::LaunchFailed(const std::string& name) {
  WorkerRecord* worker = Find(name);
  if (worker == nullptr) return;
  if (++worker->failed_launches < options_.max_failed_launches) return;
  worker->drained_reason = "drained: " + std::to_string(worker->failed_launches) +
                           " launches in a row failed; look at its log, then restart coat-worker";
  if (worker->state == coatrack::v1::WORKER_STATE_READY) UpdateState(worker);
}

void Registry::LaunchSucceeded(const std::string& name) {
  if (WorkerRecord* worker = Find(name)) worker->failed_launches = 0;
}

WorkerRecord* Registry::Find(const std::string& name) {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}
const WorkerRecord* Registry::Find(const std::string& name) const {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

}  // namespace coat
