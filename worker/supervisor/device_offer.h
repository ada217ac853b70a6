// The devices a worker offers (DESIGN.md section 3): CPU slots, and GPUs where the host has any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coatrack/v1/job_service.pb.h"
#include "configs/base/status.h"

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

// GPUs from the text of `nvidia-smi --query-gpu=uuid,memory.total,name --format=csv,noheader,
// nounits` (MiB): id the UUID, total_bytes less `reserve_bytes` for its context.
Result<std::vector<coatrack::v1::Device>> ParseGpuList(std::string_view text,
                                                       int64_t reserve_bytes);

// Asks the driver's tool; an empty list when the host has none.
Result<std::vector<coatrack::v1::Device>> OfferGpus(int64_t reserve_bytes);

}  // namespace coat
