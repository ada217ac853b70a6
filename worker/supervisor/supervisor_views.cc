// What other threads ask of the supervisor: numbers and copies, taken under its lock.
#include <algorithm>

#include "worker/supervisor/supervisor.h"

namespace coat {

bool Supervisor::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

int Supervisor::alive() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                        [](const auto& rank) { return rank.second.alive(); }));
}

int Supervisor::unacknowledged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(ranks_.size());
}

std::vector<Supervisor::StreamWork> Supervisor::Streams() const {
  const std::lock_guard lock(mutex_);
  std::vector<StreamWork> work;
  for (const auto& [id, entry] : ranks_) {
    if (entry.launching()) continue;
    work.push_back({id, entry.dir(), entry.alive(), entry.streams});
  }
  return work;
}

void Supervisor::UpdateStreams(const RankId& id, const std::function<void(RankStreams*)>& change) {
  bool delivered = false;
  {
    const std::lock_guard lock(mutex_);
    const auto it = ranks_.find(id);
    if (it == ranks_.end()) return;
    RankStreams& streams = it->second.streams;
    const bool before = streams.records_delivered && streams.output_delivered;
    change(&streams);
    delivered = !before && streams.records_delivered && streams.output_delivered;
  }
  if (delivered) on_urgent_();
}

std::optional<coatrack::v1::StopMode> Supervisor::PendingStop(const RankId& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = ranks_.find(id);
  if (it == ranks_.end() || !it->second.stop_requested()) return std::nullopt;
  return it->second.stop_mode();
}

bool Supervisor::IsAlive(const RankId& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = ranks_.find(id);
  return it != ranks_.end() && it->second.alive();
}

bool Supervisor::HasAttempt(const std::string& job_id, int attempt) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
    return rank.first.job_id == job_id && rank.first.attempt == attempt && rank.second.alive();
  });
}

std::vector<RankSeries> Supervisor::Series() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankSeries> series;
  for (const auto& [id, entry] : ranks_) {
    if (entry.alive()) series.push_back(entry.Series());
  }
  return series;
}

std::map<std::string, std::string> Supervisor::DeviceHolders() const {
  std::map<std::string, std::string> holders;
  if (device_remnants_) holders = device_remnants_();
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : ranks_) {
    if (entry.alive() && !entry.device().empty()) holders[entry.device()] = id.job_id;
  }
  return holders;
}

}  // namespace coat
