#include "worker/memory/device_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/memory/cuda_memory.h"
#include "worker/memory/host_limits.h"

namespace coat {
namespace {

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

std::unique_ptr<DeviceMemory> ReserveDeviceMemory(const std::string& device, int64_t bytes) {
  Check(bytes >= 0, "ReserveDeviceMemory: negative size");
  if (device == "cpu") return std::make_unique<HostMemory>(bytes);
  if (device.starts_with("cuda:")) return ReserveCudaMemory(device, bytes);
  throw Error(Code::kFailedPrecondition,
              "device \"" + device + "\" is unknown; use \"cpu\" or \"cuda:<uuid or index>\"");
}

}  // namespace coat
