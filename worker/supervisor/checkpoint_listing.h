// The complete checkpoints on this worker's storage roots, as the coordinator hears of them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"
#include "configs/base/clock.h"
#include "worker/supervisor/storage_roots.h"

namespace coat {

inline constexpr int kMaxListedCheckpoints = 20'000;  // of a root; older ones are left out
inline constexpr int64_t kScanIntervalMs = 2'000;

// A report names everything on a root, since it replaces what the coordinator knew, and is sent
// only when it differs from the last one that arrived. A job's folder is listed again only when it
// has changed. One thread at a time.
class CheckpointListing {
 public:
  CheckpointListing(std::vector<StorageRootDir> roots, const Clock* clock);

  // Appends a report for each root that has changed. Folders of `jobs` (those with ranks here) are
  // looked at each time, all others every kScanIntervalMs. Torn checkpoints are left out and named
  // in the log, once.
  void Fill(const std::set<std::string>& jobs, coatrack::v1::SyncRequest* request);
  // What Fill appended last has arrived.
  void Confirm();
  // The coordinator has been restarted: everything is to be reported again.
  void Forget();

 private:
  struct Job {
    int64_t changed_ns = -1;  // modification time of the folder when it was listed
    std::vector<coatrack::v1::Checkpoint> checkpoints;
  };
  struct Root {
    StorageRootDir dir;
    std::map<std::string, Job> jobs;
    int64_t scanned_ms = -kScanIntervalMs;
    std::string reported;  // serialized; of the last Fill
    std::string confirmed;
  };
  void Scan(Root* root);
  void List(const Root& root, const std::string& job_id, Job* job);
  coatrack::v1::CheckpointReport Report(const Root& root) const;

  std::vector<Root> roots_;
  const Clock* const clock_;
};

}  // namespace coat
