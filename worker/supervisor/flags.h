// The command line of coat-worker: a configuration file, and flags that override it.
#pragma once

#include <string>

#include "coatrack/v1/daemon_config.pb.h"
#include "configs/base/status.h"

namespace coat {

struct WorkerFlags {
  coatrack::v1::WorkerConfig config;  // defaults, file and flags applied; not yet resolved
  bool done = false;                  // --help or --version was printed
};

// kInvalidArgument for a bad flag or file; the message is ready to be printed. Help and version go
// to standard output.
Result<WorkerFlags> ParseWorkerFlags(int argc, const char* const* argv);

}  // namespace coat
