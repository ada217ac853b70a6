// The storage roots of a worker: each folder carries a file with its UUID, so that two workers know
// when they see the same one (PROTOCOLS.md section 4).
#pragma once

#include <string>
#include <vector>

#include "coatrack/v1/daemon_config.pb.h"
#include "configs/base/status.h"

namespace coat {

inline constexpr char kRootUuidFile[] = ".coatrack-root";

struct StorageRootDir {
  std::string name;
  std::string path;
  std::string uuid;
};

// Creates the folder and its UUID file where missing; safe when several workers start at once on a
// shared folder. Errors, naming the path: kIo; kDataLoss when the UUID file holds no UUID.
Result<StorageRootDir> OpenStorageRoot(const coatrack::v1::StorageRootConfig& config);
Result<std::vector<StorageRootDir>> OpenStorageRoots(const coatrack::v1::WorkerConfig& config);

// nullptr when no root has this UUID.
const StorageRootDir* FindRoot(const std::vector<StorageRootDir>& roots, const std::string& uuid);

}  // namespace coat
