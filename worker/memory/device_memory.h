// The one reservation of a rank, by device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace coat {

// Owns `bytes` of memory of one device, zeroed, every page of it present. Released on destruction.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;  // aligned to kArenaAlignment; null when 0 bytes were asked
};

inline constexpr int64_t kArenaAlignment = 256;

// `device`: "cpu" or "cuda:<uuid or index>". Errors: Error(kOutOfDeviceMemory) with bytes asked and
// available; Error(kFailedPrecondition) for a device this build has no memory for.
std::unique_ptr<DeviceMemory> ReserveDeviceMemory(const std::string& device, int64_t bytes);

}  // namespace coat
