#include "server/loops/rendezvous.h"

namespace coat {

Status Rendezvous::Put(const std::string& job, int32_t attempt, const std::string& key,
                       const std::string& value) {
  Values& held = attempts_[{job, attempt}];
  const auto added = static_cast<int64_t>(key.size() + value.size());
  if (added > kMaxRendezvousValueBytes || held.bytes + added > kMaxRendezvousBytes) {
    return {Code::kResourceExhausted,
            "rendezvous of job " + job + ": a value takes at most 1 MiB, an attempt 64 MiB"};
  }
  const auto old = held.values.find(key);
  if (old != held.values.end()) held.bytes -= static_cast<int64_t>(key.size() + old->second.size());
  held.values[key] = value;
  held.bytes += added;
  held.asked_ms.erase(key);
  return {};
}

std::map<std::string, std::string> Rendezvous::Get(const std::string& job, int32_t attempt,
                                                   const std::vector<std::string>& keys,
                                                   int64_t now_ms) {
  Values& held = attempts_[{job, attempt}];
  std::map<std::string, std::string> found;
  for (const std::string& key : keys) {
    const auto value = held.values.find(key);
    if (value != held.values.end()) {
      found.emplace(key, value->second);
    } else {
      held.asked_ms.try_emplace(key, now_ms);
    }
  }
  return found;
}

std::optional<std::string> Rendezvous::Overdue(const std::string& job, int32_t attempt,
                                               int64_t now_ms, int64_t timeout_ms) const {
  const auto found = attempts_.find({job, attempt});
  if (found == attempts_.end()) return std::nullopt;
  for (const auto& [key, asked_ms] : found->second.asked_ms) {
    if (now_ms - asked_ms >= timeout_ms) return key;
  }
  return std::nullopt;
}

void Rendezvous::Clear(const std::string& job) {
  auto it = attempts_.lower_bound({job, 0});
  while (it != attempts_.end() && it->first.first == job) it = attempts_.erase(it);
}

}  // namespace coat
