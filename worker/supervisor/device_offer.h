// The devices a worker offers (DESIGN.md section 3): CPU slots, and GPUs where the host has any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coatrack/v1/job_service.pb.h"
#include "configs/base/status.h"
#include "worker/supervisor/gpu_driver.h"

namespace coat {

struct HostLimits {
  int64_t memory_bytes = 0;  // the smaller of RAM and the tightest cgroup limit above this process
  int cpus = 0;              // CPUs this process may run on, cgroup quota included
};

// Reads /proc and the cgroup tree (v1 and v2) below `root`, "" for the host itself.
// kIo naming the file when /proc/meminfo cannot be read.
Result<HostLimits> ReadHostLimits(const std::string& root);

// `slots` devices "cpu:0", "cpu:1", ... of limits.memory_bytes / slots - reserve_bytes bytes and
// limits.cpus / slots threads (at least 1). slots 0: none.
// kInvalidArgument when nothing is left for a slot.
Result<std::vector<coatrack::v1::Device>> OfferCpuSlots(const HostLimits& limits, int slots,
                                                        int64_t reserve_bytes);

// Every GPU of the driver: id its UUID; bytes its total less what driver and firmware keep and less
// `reserve_bytes` for a rank's context and libraries; an equal share of limits.cpus as threads.
// kInvalidArgument when the reserve leaves nothing; kFailedPrecondition of the driver.
Result<std::vector<coatrack::v1::Device>> OfferGpus(const HostLimits& limits, GpuDriver* driver,
                                                    int64_t reserve_bytes);

}  // namespace coat
