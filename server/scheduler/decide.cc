#include "server/scheduler/decide.h"

#include <algorithm>
#include <numeric>

#include "server/scheduler/cluster.h"
#include "server/scheduler/explain.h"

namespace coat {
namespace {

using coatrack::v1::PendingReason;

// One pass; holds what its steps share.
class Pass {
 public:
  explicit Pass(const Snapshot& snapshot) : snapshot_(snapshot), cluster_(snapshot) {}

  Decision Run() {
    std::vector<int> order(snapshot_.jobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const PendingJob& left = snapshot_.jobs[a];
      const PendingJob& right = snapshot_.jobs[b];
      if (left.priority != right.priority) return left.priority > right.priority;
      return left.sequence < right.sequence;
    });
    for (const int index : order) Visit(snapshot_.jobs[index]);
    return std::move(decision_);
  }

 private:
  struct Option {
    Group* group;
    Need need;
  };

  void Wait(const PendingJob& job, PendingReason reason, std::string message) {
    decision_.waiting.push_back({job.id, reason, std::move(message)});
  }

  void Visit(const PendingJob& job) {
    if (snapshot_.reconciling) {
      return Wait(job, coatrack::v1::PENDING_REASON_RECONCILING,
                  "the coordinator has just started and waits for the workers to report");
    }
    if (job.not_before_ms > snapshot_.now_ms) {
      return Wait(job, coatrack::v1::PENDING_REASON_BACKOFF,
                  ExplainBackoff(job.not_before_ms - snapshot_.now_ms));
    }
    if (!job.storage_problem.empty()) {
      return Wait(job, coatrack::v1::PENDING_REASON_STORAGE_UNREACHABLE, job.storage_problem);
    }
    const std::vector<Group*>& groups = cluster_.Groups(job);
    if (groups.empty()) {
      const int64_t labelled = cluster_.LabelledWorkers(job);
      return Wait(job,
                  labelled == 0 && job.root_uuid.empty()
                      ? coatrack::v1::PENDING_REASON_NO_FITTING_WORKER
                      : coatrack::v1::PENDING_REASON_STORAGE_UNREACHABLE,
                  ExplainStorage(job, labelled));
    }
    const std::vector<Option> options = Options(job, groups);
    if (options.empty()) return RefuseNoFit(job, *groups.front());
    for (const Option& option : options) {
      if (TryPlace(job, option)) return;
    }
    WaitForDevices(job, options);
  }

  static Need NeedOf(const PendingJob& job, coatrack::v1::DeviceKind kind) {
    return {kind, job.ranks, kind == coatrack::v1::DEVICE_KIND_GPU ? job.gpu_bytes : job.cpu_bytes};
  }

  // Groups that hold the gang when idle, all of one kind; empty: none does.
  static std::vector<Option> Options(const PendingJob& job, const std::vector<Group*>& groups) {
    std::vector<Option> options;
    for (const auto kind : {coatrack::v1::DEVICE_KIND_GPU, coatrack::v1::DEVICE_KIND_CPU}) {
      if (job.device != coatrack::v1::DEVICE_KIND_AUTO && job.device != kind) continue;
      const Need need = NeedOf(job, kind);
      for (Group* group : groups) {
        if (Cluster::FitsIdle(*group, need, /*usable_only=*/false))
          options.push_back({group, need});
      }
      if (!options.empty()) break;
    }
    return options;
  }

  void RefuseNoFit(const PendingJob& job, const Group& group) {
    auto kind = job.device;
    if (kind == coatrack::v1::DEVICE_KIND_AUTO) {
      kind = group.registered_totals[coatrack::v1::DEVICE_KIND_GPU].empty()
                 ? coatrack::v1::DEVICE_KIND_CPU
                 : coatrack::v1::DEVICE_KIND_GPU;
    }
    const std::vector<int64_t>& totals = group.registered_totals[kind];
    Wait(job, coatrack::v1::PENDING_REASON_NO_FITTING_WORKER,
         ExplainNoFit(job, NeedOf(job, kind), totals.empty() ? 0 : totals.front(),
                      static_cast<int64_t>(totals.size())));
  }

  bool EndsBeforeHead(const PendingJob& job) const {
    return job.time_limit_ms > 0 && decision_.reservation.start_ms != kNeverMs &&
           snapshot_.now_ms + job.time_limit_ms <= decision_.reservation.start_ms;
  }

  bool TryPlace(const PendingJob& job, const Option& option) {
    const bool unreserved = !decision_.reservation.job.empty() && !EndsBeforeHead(job);
    const std::vector<DeviceIndex> found = cluster_.Find(option.group, option.need, unreserved);
    if (found.empty()) return false;
    cluster_.Take(found, job.time_limit_ms > 0 ? snapshot_.now_ms + job.time_limit_ms : kNeverMs);
    Placement placement;
    placement.job = job.id;
    placement.device = option.need.kind;
    placement.root_uuid = option.group->root_uuid;
    for (const auto& [w, d] : found) {
      const WorkerView& worker = snapshot_.workers[w];
      placement.ranks.push_back({worker.name, worker.devices[d].id, worker.devices[d].threads});
    }
    decision_.placements.push_back(std::move(placement));
    return true;
  }

  void WaitForDevices(const PendingJob& job, const std::vector<Option>& options) {
    const auto usable = std::find_if(options.begin(), options.end(), [](const Option& option) {
      return Cluster::FitsIdle(*option.group, option.need, /*usable_only=*/true);
    });
    if (usable == options.end()) {
      return Wait(job, coatrack::v1::PENDING_REASON_NO_FREE_DEVICES,
                  ExplainUnusable(options.front().need));
    }
    const Need& need = usable->need;
    const Cluster::FreeCount free = cluster_.CountFree(*usable->group, need);
    if (decision_.reservation.job.empty()) {
      decision_.reservation.job = job.id;
      decision_.reservation.start_ms = cluster_.Reserve(*usable->group, need);
      decision_.reservation.workers = cluster_.ReservedWorkers();
    } else if (free.fitting >= need.ranks) {
      return Wait(job, coatrack::v1::PENDING_REASON_RESERVED,
                  ExplainReserved(need, decision_.reservation));
    }
    Wait(job,
         free.any >= need.ranks ? coatrack::v1::PENDING_REASON_NOT_ENOUGH_MEMORY
                                : coatrack::v1::PENDING_REASON_NO_FREE_DEVICES,
         ExplainBusy(need, free));
  }

  const Snapshot& snapshot_;
  Cluster cluster_;
  Decision decision_;
};

}  // namespace

Decision Decide(const Snapshot& snapshot) { return Pass(snapshot).Run(); }

}  // namespace coat
