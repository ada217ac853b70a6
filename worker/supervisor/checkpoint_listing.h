// The checkpoints of the jobs that run here, listed again only when a job's folder has changed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"
#include "worker/supervisor/storage_roots.h"

namespace coat {

// One thread at a time.
class CheckpointListing {
 public:
  using Job = std::pair<std::string, std::string>;  // root uuid, job id

  explicit CheckpointListing(std::vector<StorageRootDir> roots) : roots_(std::move(roots)) {}

  // Appends a report for each root, with the checkpoints of `jobs` on it; forgets other jobs.
  // Torn checkpoints are left out and named in the log, once.
  void Fill(const std::set<Job>& jobs, coatrack::v1::SyncRequest* request);

 private:
  struct Listed {
    int64_t changed_ns = -1;  // modification time of the folder when it was listed
    std::vector<coatrack::v1::Checkpoint> checkpoints;
  };
  const Listed& List(const StorageRootDir& root, const std::string& job_id);

  const std::vector<StorageRootDir> roots_;
  std::map<Job, Listed> listed_;
};

}  // namespace coat
