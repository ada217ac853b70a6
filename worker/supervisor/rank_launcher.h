// From what the coordinator wants to a running process.
#pragma once

#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"
#include "configs/base/status.h"
#include "worker/supervisor/storage_roots.h"

namespace coat {

struct LaunchContext {
  std::string state_dir;
  std::string trainer_path;
  std::string data_root;
  std::string advertise_address;
  std::string incarnation;
  std::string socket_path;
  std::vector<StorageRootDir> roots;
};

// The launch order of one rank. kInvalidArgument naming the field when a name from the coordinator
// is no plain name (worker_config.h), kNotFound when the storage root is not one of this worker.
Result<coatrack::v1::RankLaunch> MakeLaunch(const LaunchContext& context,
                                            const coatrack::v1::DesiredRank& desired);

// Writes the rank's directory and starts it; blocks for some disk syncs. The directory also
// receives desired.json: the coordinator's order, from which a later daemon knows device and root.
// kNotFound also when the checkpoint to start from is gone.
Status LaunchRank(const LaunchContext& context, const coatrack::v1::DesiredRank& desired);

// What LaunchRank remembered of the order (without the spec). kNotFound, kDataLoss.
Result<coatrack::v1::DesiredRank> ReadDesired(const std::string& rank_dir);

}  // namespace coat
