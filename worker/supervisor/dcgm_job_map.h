// Tells NVIDIA's dcgm-exporter which job holds which GPU, so that its series carry the job: the
// files of its --hpc-job-mapping-dir (DCGM_HPC_JOB_MAPPING_DIR). A file for each GPU that a job
// holds, named by the GPU's index, with the job's id as its only line; the exporter shows it as
// label `hpc_job`. A GPU without a file keeps its series without that label; an empty file would
// take them away.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "configs/base/status.h"

namespace coat {

// Files of other names are left alone. One thread at a time.
class DcgmJobMap {
 public:
  // `uuids` in the order in which the driver lists the host's GPUs: their index is DCGM's GPU id
  // where the worker sees all of them. Creates the folder. kIo naming it when it cannot be written
  // to.
  static Result<DcgmJobMap> Open(const std::string& dir, std::vector<std::string> uuids);

  // Makes the files say `holders` (device -> job; others are free), each replaced as a whole.
  // Writes only what differs from the last call; the first call also removes what an earlier daemon
  // left. kIo or kResourceExhausted naming the file; what failed is tried again with the next call.
  Status Update(const std::map<std::string, std::string>& holders);

 private:
  DcgmJobMap(std::string dir, std::vector<std::string> uuids)
      : dir_(std::move(dir)), uuids_(std::move(uuids)) {}
  Status Write(const std::string& path, const std::string& job) const;

  std::string dir_;
  std::vector<std::string> uuids_;
  std::map<std::string, std::string> written_;  // device -> job, "" for a free one
};

}  // namespace coat
