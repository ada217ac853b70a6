// Everything that is refused before a job is queued or a rank started.
#pragma once

#include <cstdint>

#include "coatrack/v1/daemon_config.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/spec/violation.h"

namespace coat {

inline constexpr int kMaxLabels = 32;
inline constexpr int kMaxDataPaths = 1000;
inline constexpr int kMaxRanks = 4096;

// `spec` has defaults applied. Empty: the engine accepts it. Each violation carries the field
// path and what to write. Pure: no file is looked at.
Violations ValidateJobSpec(const coatrack::v1::JobSpec& spec);

Violations ValidateServerConfig(const coatrack::v1::ServerConfig& config);
Violations ValidateWorkerConfig(const coatrack::v1::WorkerConfig& config);
Violations ValidateClientConfig(const coatrack::v1::ClientConfig& config);

// Microbatches of one rank in one step: global_batch / (micro_batch x ranks).
int64_t MicrobatchesPerStep(const coatrack::v1::JobSpec& spec);

// "host:port"; a host of "127.x.x.x", "::1" or "localhost" is loopback.
bool IsLoopback(const std::string& address);

}  // namespace coat
