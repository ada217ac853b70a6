// The seam between the arena and CUDA memory. CMake links exactly one definition: cuda_memory.cc
// when the build has a CUDA compiler, else cuda_memory_none.cc, which refuses.
#pragma once

#include <memory>
#include <string>

#include "worker/memory/device_memory.h"

namespace coat {

// ReserveDeviceMemory for "cuda:<index or UUID>".
std::unique_ptr<DeviceMemory> ReserveCudaMemory(const std::string& device, int64_t bytes);

}  // namespace coat
