#include "worker/memory/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/memory/cuda_memory.h"

namespace coat {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t FreeRamBytes() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    int64_t kib = 0;
    if (words >> key >> kib && key == "MemAvailable:") return kib * kKiB;
  }
  return kUnlimited;
}

// -1: no such file, or "max".
int64_t ReadNumber(const char* path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

int64_t FreeInGroupBytes() {
  const std::pair<const char*, const char*> files[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
       "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
  };
  for (const auto& [limit_path, used_path] : files) {
    const int64_t limit = ReadNumber(limit_path);
    const int64_t used = ReadNumber(used_path);
    if (limit >= 0 && used >= 0) return std::max<int64_t>(limit - used, 0);
  }
  return kUnlimited;
}

class HostMemory final : public DeviceMemory {
 public:
  explicit HostMemory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    if (bytes == 0) return;
    const int64_t available = AvailableHostBytes();
    if (bytes > available) Refuse(bytes, available, "");
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (data_ == MAP_FAILED) Refuse(bytes, available, std::strerror(errno));
  }
  ~HostMemory() override {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* data() const override { return data_; }

 private:
  [[noreturn]] static void Refuse(int64_t bytes, int64_t available, const std::string& why) {
    throw Error(Code::kOutOfDeviceMemory,
                "cpu: the plan asks for " + FormatBytes(bytes) + " (" + std::to_string(bytes) +
                    " bytes), " + FormatBytes(available) + " are available" +
                    (why.empty() ? "" : " (" + why + ")") +
                    "; use a smaller micro_batch, precision.save lean, or more memory");
  }

  size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace

int64_t AvailableHostBytes() { return std::min(FreeRamBytes(), FreeInGroupBytes()); }

std::unique_ptr<DeviceMemory> ReserveDeviceMemory(const std::string& device, int64_t bytes) {
  Check(bytes >= 0, "ReserveDeviceMemory: negative size");
  if (device == "cpu") return std::make_unique<HostMemory>(bytes);
  if (device.starts_with("cuda:")) return ReserveCudaMemory(device, bytes);
  throw Error(Code::kFailedPrecondition,
              "device \"" + device + "\" is unknown; use \"cpu\" or \"cuda:<uuid or index>\"");
}

}  // namespace coat
