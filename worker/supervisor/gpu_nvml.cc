// NVML by dlopen. The few declarations are NVML's documented binary interface.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

#include "worker/supervisor/gpu_driver.h"

namespace coat {
namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr unsigned kTextBytes = 96;

using Device = void*;
struct MemoryV2 {
  unsigned version = sizeof(MemoryV2) | 2u << 24;
  unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};
struct ProcessV3 {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

struct Api {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*by_uuid)(const char*, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, MemoryV2*) = nullptr;
  int (*processes)(Device, unsigned*, ProcessV3*) = nullptr;
};

class Library {
 public:
  explicit Library(const std::string& name)
      : name_(name), handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) error_ = dlerror();
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename Function>
  void Load(const char* symbol, Function* function) {
    if (!error_.empty()) return;
    *function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (*function == nullptr) error_ = name_ + ": has no " + symbol + "; update the driver";
  }
  const std::string& error() const { return error_; }

 private:
  const std::string name_;
  void* handle_;
  std::string error_;
};

class Nvml final : public GpuDriver {
 public:
  explicit Nvml(const std::string& library) : library_(library) {
    library_.Load("nvmlInit_v2", &api_.init);
    library_.Load("nvmlShutdown", &api_.shutdown);
    library_.Load("nvmlErrorString", &api_.error_string);
    library_.Load("nvmlDeviceGetCount_v2", &api_.count);
    library_.Load("nvmlDeviceGetHandleByIndex_v2", &api_.by_index);
    library_.Load("nvmlDeviceGetHandleByUUID", &api_.by_uuid);
    library_.Load("nvmlDeviceGetUUID", &api_.uuid);
    library_.Load("nvmlDeviceGetName", &api_.name);
    library_.Load("nvmlDeviceGetMemoryInfo_v2", &api_.memory);
    library_.Load("nvmlDeviceGetComputeRunningProcesses_v3", &api_.processes);
  }
  ~Nvml() override {
    if (initialized_) api_.shutdown();
  }

  Status Init() {
    if (!library_.error().empty()) return {Code::kFailedPrecondition, library_.error()};
    RETURN_IF_ERROR(Wrap(api_.init(), "nvmlInit_v2"));
    initialized_ = true;
    return {};
  }

  Result<std::vector<Gpu>> List() override {
    unsigned count = 0;
    RETURN_IF_ERROR(Wrap(api_.count(&count), "nvmlDeviceGetCount_v2"));
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      RETURN_IF_ERROR(Wrap(api_.by_index(i, &device), "nvmlDeviceGetHandleByIndex_v2"));
      std::array<char, kTextBytes> uuid{}, name{};
      MemoryV2 memory;
      RETURN_IF_ERROR(Wrap(api_.uuid(device, uuid.data(), kTextBytes), "nvmlDeviceGetUUID"));
      RETURN_IF_ERROR(Wrap(api_.name(device, name.data(), kTextBytes), "nvmlDeviceGetName"));
      RETURN_IF_ERROR(Wrap(api_.memory(device, &memory), "nvmlDeviceGetMemoryInfo_v2"));
      gpus.push_back({uuid.data(), name.data(), static_cast<int64_t>(memory.total),
                      static_cast<int64_t>(memory.reserved)});
    }
    return gpus;
  }

  Result<GpuUsage> Usage(const std::string& uuid) override {
    Device device = nullptr;
    RETURN_IF_ERROR(Wrap(api_.by_uuid(uuid.c_str(), &device), uuid.c_str()));
    MemoryV2 memory;
    RETURN_IF_ERROR(Wrap(api_.memory(device, &memory), "nvmlDeviceGetMemoryInfo_v2"));
    std::vector<ProcessV3> found(16);
    while (true) {
      auto count = static_cast<unsigned>(found.size());
      const int status = api_.processes(device, &count, found.data());
      if (status == kInsufficientSize) {  // count says how many there were; more may come
        found.resize(std::max<size_t>(count, found.size()) * 2);
        continue;
      }
      RETURN_IF_ERROR(Wrap(status, "nvmlDeviceGetComputeRunningProcesses_v3"));
      GpuUsage usage;
      usage.used_bytes = static_cast<int64_t>(memory.used);
      for (unsigned i = 0; i < count; ++i) {
        usage.processes.push_back(static_cast<pid_t>(found[i].pid));
      }
      return usage;
    }
  }

 private:
  Status Wrap(int status, const char* what) const {
    if (status == kSuccess) return {};
    return {Code::kFailedPrecondition,
            std::string("the GPU driver: ") + what + ": " + api_.error_string(status)};
  }

  Library library_;
  Api api_;
  bool initialized_ = false;
};

}  // namespace

Result<std::unique_ptr<GpuDriver>> LoadNvml(const std::string& library) {
  auto nvml = std::make_unique<Nvml>(library);
  RETURN_IF_ERROR(nvml->Init());
  return std::unique_ptr<GpuDriver>(std::move(nvml));
}

}  // namespace coat
