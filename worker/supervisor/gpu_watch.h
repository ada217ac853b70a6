// Which GPUs still carry a process or memory of ours (SERVICE.md failure rule 2: free means clean).
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "configs/base/clock.h"
#include "worker/supervisor/gpu_driver.h"

namespace coat {

// A process is ours when its command line names a rank folder below `state_dir`. Its memory is gone
// from the host long before the driver has cleaned up after it, so a process once known as ours
// stays so for as long as the driver lists it. When the last one has left, the memory in use must
// also be back to what it was before the first (within kToleratedBytes): it is waited for as long
// as nobody else has come or gone meanwhile, since bytes of others cannot be told from ours, and
// for kLongestWaitMs at most. In a container that does not share the host's process ids nothing is
// found; then the rank's own end is all there is. Thread-safe.
class GpuWatch {
 public:
  static constexpr int64_t kToleratedBytes = int64_t{64} << 20;
  static constexpr int64_t kLongestWaitMs = 60'000;

  // `driver` may be null: no GPUs. `proc`: where processes are looked up, "/proc".
  GpuWatch(GpuDriver* driver, std::vector<std::string> uuids, std::string state_dir,
           const Clock* clock, std::string proc = "/proc");

  // Asks the driver. True when a GPU has become clean since the last call. A driver that does not
  // answer leaves everything as it was.
  bool Poll();
  // GPU -> job of a process or of memory of ours on it, as of the last Poll.
  std::map<std::string, std::string> Holders() const;

 private:
  struct State {
    std::map<pid_t, std::string> ours;  // process -> job
    std::set<pid_t> others;             // when it was last clean
    int64_t clean_bytes = -1;           // in use then; negative: not seen yet
    std::string holder;                 // job; empty: clean
    int64_t left_ms = 0;                // when the last process of ours was seen, steady clock
  };

  void Update(const GpuUsage& usage, State* state) const;
  std::string JobOf(pid_t pid) const;  // empty: not ours, or gone

  GpuDriver* const driver_;
  const std::vector<std::string> uuids_;
  const std::string attempts_dir_;
  const Clock* const clock_;
  const std::string proc_;
  std::mutex poll_mutex_;  // one poll at a time: answers are taken in their order
  mutable std::mutex mutex_;
  std::map<std::string, State> states_;  // by GPU
};

}  // namespace coat
