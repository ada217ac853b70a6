#include "server/loops/waiters.h"

#include <utility>

namespace coat {

size_t Waiters::Slot(const std::string& topic) { return std::hash<std::string>()(topic) % 4096; }

void Waiters::Wait(const std::string& topic, uint64_t seen, int64_t deadline_ms, Callback call,
                   std::vector<Callback>* ready) {
  if (Version(topic) != seen) {
    ready->push_back(std::move(call));
  } else {
    waiting_[topic].push_back({deadline_ms, std::move(call)});
  }
}

void Waiters::Notify(const std::string& topic, std::vector<Callback>* ready) {
  ++versions_[Slot(topic)];
  const auto found = waiting_.find(topic);
  if (found == waiting_.end()) return;
  for (Entry& entry : found->second) ready->push_back(std::move(entry.call));
  waiting_.erase(found);
}

void Waiters::Expire(int64_t now_ms, std::vector<Callback>* ready) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::erase_if(it->second, [&](Entry& entry) {
      if (entry.deadline_ms > now_ms) return false;
      ready->push_back(std::move(entry.call));
      return true;
    });
    it = it->second.empty() ? waiting_.erase(it) : std::next(it);
  }
}

void Waiters::ReleaseAll(std::vector<Callback>* ready) {
  for (auto& [topic, entries] : waiting_) {
    for (Entry& entry : entries) ready->push_back(std::move(entry.call));
  }
  waiting_.clear();
}

size_t Waiters::size() const {
  size_t count = 0;
  for (const auto& [topic, entries] : waiting_) count += entries.size();
  return count;
}

}  // namespace coat
