// What the daemon runs with: the configuration file's values made absolute.
#pragma once

#include <string>

#include "coatrack/v1/daemon_config.pb.h"
#include "configs/base/status.h"

namespace coat {

// Completes a config that was loaded and validated (configs/spec/load.h): folders become absolute,
// the trainer defaults to coat-train beside `program_path`. kInvalidArgument when there is no
// program at trainer_path.
Status ResolveWorkerConfig(const std::string& program_path, coatrack::v1::WorkerConfig* config);

// True for one name inside a folder: not empty, not "." or "..", no '/' and no NUL. What the
// coordinator names (job ids, checkpoint folders) must be such before it becomes a path.
bool IsPathComponent(const std::string& name);

}  // namespace coat
