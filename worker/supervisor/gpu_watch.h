// Which GPUs still carry a process of ours (SERVICE.md failure rule 2: free means clean).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "worker/supervisor/gpu_driver.h"

namespace coat {

// A process is ours when its command line names a rank folder below `state_dir`. Its memory is gone
// from the host long before the driver has cleaned up after it, so a process once known as ours
// stays so for as long as the driver lists it. In a container that does not share the host's
// process ids nothing is found; then the rank's own end is all there is. Thread-safe.
class GpuWatch {
 public:
  // `driver` may be null: no GPUs. `proc`: where processes are looked up, "/proc".
  GpuWatch(GpuDriver* driver, std::vector<std::string> uuids, std::string state_dir,
           std::string proc = "/proc");

  // Asks the driver. True when a GPU has become clean since the last call. A driver that does not
  // answer leaves everything as it was.
  bool Poll();
  // GPU -> job of a process of ours on it, as of the last Poll.
  std::map<std::string, std::string> Holders() const;

 private:
  std::string JobOf(pid_t pid) const;  // empty: not ours, or gone

  GpuDriver* const driver_;
  const std::vector<std::string> uuids_;
  const std::string attempts_dir_;
  const std::string proc_;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<pid_t, std::string>> ours_;  // GPU -> process -> job
};

}  // namespace coat
