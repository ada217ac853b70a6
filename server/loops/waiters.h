// Calls that wait for something to change: long polls and streams. No thread waits; a call leaves
// a function behind.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace coat {

using Callback = std::function<void()>;

// Not thread-safe. Functions are not called here but appended to `ready`, to be called once the
// caller holds no lock. A topic's version may grow without reason (topics share slots), so whoever
// is called looks again.
class Waiters {
 public:
  uint64_t Version(const std::string& topic) const { return versions_[Slot(topic)]; }
  // Ready at once when the topic's version is no longer `seen`, else at the next Notify or at
  // `deadline_ms` (steady), whichever comes first.
  void Wait(const std::string& topic, uint64_t seen, int64_t deadline_ms, Callback call,
            std::vector<Callback>* ready);
  void Notify(const std::string& topic, std::vector<Callback>* ready);
  void Expire(int64_t now_ms, std::vector<Callback>* ready);
  void ReleaseAll(std::vector<Callback>* ready);
  size_t size() const;

 private:
  struct Entry {
    int64_t deadline_ms;
    Callback call;
  };
  static size_t Slot(const std::string& topic);

  std::array<uint64_t, 4096> versions_{};
  std::unordered_map<std::string, std::vector<Entry>> waiting_;
};

}  // namespace coat
