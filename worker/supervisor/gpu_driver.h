// What the daemon asks the GPUs' driver (NVML), behind an interface that tests replace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "configs/base/status.h"

namespace coat {

struct Gpu {
  std::string uuid;  // "GPU-8-4-4-4-12"
  std::string model;
  int64_t total_bytes = 0;
  int64_t reserved_bytes = 0;  // of the total: kept by driver and firmware
};

struct GpuUsage {
  // With a compute context on the GPU, as this process's pid namespace names them.
  std::vector<pid_t> processes;
  int64_t used_bytes = 0;  // of everybody, without what driver and firmware keep
};

// Thread-safe.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual Result<std::vector<Gpu>> List() = 0;
  virtual Result<GpuUsage> Usage(const std::string& uuid) = 0;
};

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// NVML, loaded now, so that one program runs with and without a driver.
// kFailedPrecondition saying why: no library, a symbol is missing, no driver behind it.
Result<std::unique_ptr<GpuDriver>> LoadNvml(const std::string& library = kNvmlLibrary);

}  // namespace coat
