// Complete checkpoints, as the workers that see a root report them (PROTOCOLS.md section 4).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"

namespace coat {

// Not thread-safe.
class CheckpointIndex {
 public:
  // Replaces what is known of the root. Returns the jobs whose list changed.
  std::vector<std::string> Report(const coatrack::v1::CheckpointReport& report);
  // One that a rank has just committed, before the root's next report. `directory` is a path or
  // a name "step-N.attempt-K".
  void Add(const std::string& root_uuid, const std::string& job, const std::string& directory,
           int64_t bytes, int64_t wall_ms);

  // Newest first; of every root when `root_uuid` is empty.
  std::vector<coatrack::v1::Checkpoint> List(const std::string& root_uuid,
                                             const std::string& job) const;
  // The newest, or that of `step` where it is not negative; null: none.
  const coatrack::v1::Checkpoint* Find(const std::string& root_uuid, const std::string& job,
                                       int64_t step) const;
  // Roots that hold a checkpoint of the job (of that step, unless negative).
  std::vector<std::string> RootsOf(const std::string& job, int64_t step) const;

 private:
  using Jobs = std::map<std::string, std::vector<coatrack::v1::Checkpoint>>;  // newest first
  std::map<std::string, Jobs> roots_;
};

// Last component of a path.
std::string DirectoryName(const std::string& path);

}  // namespace coat
