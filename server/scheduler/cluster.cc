#include "server/scheduler/cluster.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace coat {
namespace {

bool Carries(const WorkerView& worker, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto found = worker.labels.find(label.first);
    return found != worker.labels.end() && found->second == label.second;
  });
}

// Separators that no label or root name contains.
std::string ConstraintKey(const PendingJob& job) {
  std::string key = job.root + '\1' + job.root_uuid;
  for (const auto& [name, value] : job.labels) key += '\2' + name + '\1' + value;
  return key;
}

}  // namespace

Cluster::Cluster(const Snapshot& snapshot) : snapshot_(snapshot) {
  const size_t workers = snapshot.workers.size();
  free_.resize(workers);
  free_at_ms_.resize(workers);
  free_count_.resize(workers);
  reserved_.assign(workers, 0);
  for (size_t w = 0; w < workers; ++w) {
    const WorkerView& worker = snapshot.workers[w];
    for (const DeviceView& device : worker.devices) {
      const bool free = worker.usable && device.free;
      free_[w].push_back(free);
      free_at_ms_[w].push_back(free ? snapshot.now_ms : device.frees_at_ms);
      free_count_[w][device.kind] += free;
    }
  }
}

const std::vector<Group*>& Cluster::Groups(const PendingJob& job) {
  const auto [place, fresh] = by_constraint_.try_emplace(ConstraintKey(job));
  if (!fresh) return place->second;
  std::map<std::string, Group*> by_uuid;
  for (size_t w = 0; w < snapshot_.workers.size(); ++w) {
    const WorkerView& worker = snapshot_.workers[w];
    const auto root = worker.roots.find(job.root);
    if (!worker.registered || root == worker.roots.end() || !Carries(worker, job.labels)) continue;
    if (!job.root_uuid.empty() && root->second != job.root_uuid) continue;
    Group*& group = by_uuid[root->second];
    if (group == nullptr) {
      groups_.push_back(std::make_unique<Group>());
      group = groups_.back().get();
      group->root_uuid = root->second;
    }
    group->workers.push_back(static_cast<int>(w));
    for (const DeviceView& device : worker.devices) {
      group->registered_totals[device.kind].push_back(device.total_bytes);
      if (worker.usable) group->usable_totals[device.kind].push_back(device.total_bytes);
    }
  }
  for (auto& [uuid, group] : by_uuid) {
    for (auto* totals : {&group->registered_totals, &group->usable_totals}) {
      for (auto& list : *totals) std::sort(list.begin(), list.end(), std::greater<>());
    }
    place->second.push_back(group);
  }
  std::stable_sort(place->second.begin(), place->second.end(), [](const Group* a, const Group* b) {
    return a->workers.size() > b->workers.size();
  });
  return place->second;
}

int64_t Cluster::LabelledWorkers(const PendingJob& job) const {
  return std::count_if(
      snapshot_.workers.begin(), snapshot_.workers.end(),
      [&](const WorkerView& worker) { return worker.registered && Carries(worker, job.labels); });
}

bool Cluster::FitsIdle(const Group& group, const Need& need, bool usable_only) {
  const auto& totals = (usable_only ? group.usable_totals : group.registered_totals)[need.kind];
  const auto end = std::partition_point(totals.begin(), totals.end(),
                                        [&](int64_t total) { return total >= need.bytes; });
  return end - totals.begin() >= need.ranks;
}

int Cluster::FreeFitting(int worker, const Need& need) const {
  if (free_count_[worker][need.kind] == 0) return 0;
  const std::vector<DeviceView>& devices = snapshot_.workers[worker].devices;
  int fitting = 0;
  for (size_t d = 0; d < devices.size(); ++d) {
    fitting +=
        free_[worker][d] && devices[d].kind == need.kind && devices[d].total_bytes >= need.bytes;
  }
  return fitting;
}

Cluster::FreeCount Cluster::CountFree(const Group& group, const Need& need) const {
  FreeCount count;
  for (const int w : group.workers) {
    const int any = free_count_[w][need.kind];
    if (any == 0) continue;
    const int fitting = FreeFitting(w, need);
    count.any += any;
    count.fitting += fitting;
    if (reserved_[w]) count.reserved += fitting;
  }
  return count;
}

std::vector<DeviceIndex> Cluster::Find(Group* group, const Need& need, bool unreserved) {
  auto& failed = group->failed[need.kind];
  for (const Group::Failed& known : failed) {
    if (need.ranks >= known.ranks && need.bytes >= known.bytes && unreserved >= known.unreserved) {
      return {};
    }
  }
  std::vector<Candidate> candidates;
  int64_t total = 0;
  for (const int w : group->workers) {
    if (unreserved && reserved_[w]) continue;
    const int fitting = FreeFitting(w, need);
    if (fitting == 0) continue;
    candidates.push_back({w, fitting, snapshot_.workers[w].failed_launches});
    total += fitting;
  }
  if (total >= need.ranks) return PickDevices(Pack(std::move(candidates), need.ranks), need);
  std::erase_if(failed, [&](const Group::Failed& known) {
    return known.ranks >= need.ranks && known.bytes >= need.bytes && known.unreserved >= unreserved;
  });
  failed.push_back({need.ranks, need.bytes, unreserved});
  return {};
}

// Fewest hosts: the largest first; as soon as one host can take the whole remainder, the one it
// fills best. Workers whose launches failed lately come last.
std::vector<Cluster::Candidate> Cluster::Pack(std::vector<Candidate> candidates, int32_t ranks) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (a.failed_launches != b.failed_launches) {
                       return a.failed_launches < b.failed_launches;
                     }
                     return a.fitting > b.fitting;
                   });
  std::vector<Candidate> hosts;
  int32_t remaining = ranks;
  for (size_t i = 0; i < candidates.size() && remaining > 0; ++i) {
    size_t pick = i;
    for (size_t j = i + 1; j < candidates.size() && candidates[j].fitting >= remaining &&
                           candidates[j].failed_launches == candidates[i].failed_launches;
         ++j) {
      if (candidates[j].fitting < candidates[pick].fitting) pick = j;
    }
    hosts.push_back(candidates[pick]);
    remaining -= candidates[pick].fitting;
  }
  return hosts;
}

std::vector<DeviceIndex> Cluster::PickDevices(const std::vector<Candidate>& hosts,
                                              const Need& need) const {
  std::vector<DeviceIndex> chosen;
  for (const Candidate& host : hosts) {
    const std::vector<DeviceView>& devices = snapshot_.workers[host.worker].devices;
    std::vector<int> fitting;
    for (size_t d = 0; d < devices.size(); ++d) {
      if (free_[host.worker][d] && devices[d].kind == need.kind &&
          devices[d].total_bytes >= need.bytes) {
        fitting.push_back(static_cast<int>(d));
      }
    }
    std::stable_sort(fitting.begin(), fitting.end(),
                     [&](int a, int b) { return devices[a].total_bytes < devices[b].total_bytes; });
    for (const int d : fitting) {
      if (static_cast<int32_t>(chosen.size()) < need.ranks) chosen.emplace_back(host.worker, d);
    }
  }
  return chosen;
}

void Cluster::Take(const std::vector<DeviceIndex>& devices, int64_t until_ms) {
  for (const auto& [w, d] : devices) {
    free_[w][d] = 0;
    free_at_ms_[w][d] = until_ms;
    --free_count_[w][snapshot_.workers[w].devices[d].kind];
  }
}

int64_t Cluster::Reserve(const Group& group, const Need& need) {
  std::vector<std::pair<int64_t, int>> times;  // (free at, worker)
  for (const int w : group.workers) {
    const WorkerView& worker = snapshot_.workers[w];
    if (!worker.usable) continue;
    for (size_t d = 0; d < worker.devices.size(); ++d) {
      const DeviceView& device = worker.devices[d];
      if (device.kind != need.kind || device.total_bytes < need.bytes) continue;
      times.emplace_back(free_at_ms_[w][d], w);
    }
  }
  std::sort(times.begin(), times.end());
  int64_t start = snapshot_.now_ms;
  for (int i = 0; i < need.ranks && i < static_cast<int>(times.size()); ++i) {
    reserved_[times[i].second] = 1;
    start = times[i].first;
  }
  return start;
}

std::vector<std::string> Cluster::ReservedWorkers() const {
  std::vector<std::string> names;
  for (size_t w = 0; w < reserved_.size(); ++w) {
    if (reserved_[w]) names.push_back(snapshot_.workers[w].name);
  }
  return names;
}

}  // namespace coat
