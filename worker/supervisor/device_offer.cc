#include "worker/supervisor/device_offer.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "configs/base/units.h"

namespace coat {
namespace {

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  const auto line = ReadLine(path);
  if (!line) return std::nullopt;
  std::istringstream in(*line);
  int64_t value = 0;
  if (!(in >> value)) return std::nullopt;  // "max"
  return value;
}

struct CgroupPath {
  std::string folder;  // mount point, for example /sys/fs/cgroup/memory
  std::string path;    // "/a/b"
  bool v2 = false;
};

// Where this process stands for memory and for cpu, from /proc/self/cgroup.
std::vector<CgroupPath> ReadCgroups(const std::string& root, const std::string& controller) {
  std::vector<CgroupPath> found;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      found.push_back({root + "/sys/fs/cgroup", path, true});
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      found.push_back({root + "/sys/fs/cgroup/" + controller, path, false});
    }
  }
  return found;
}

// Calls `visit` with the process's cgroup folder and every folder above it. In a container the
// path is often that of the host and does not exist: then only the mount point answers.
template <typename Visit>
void ForEachLevel(const CgroupPath& cgroup, const Visit& visit) {
  std::string path = cgroup.path == "/" ? "" : cgroup.path;
  while (!path.empty()) {
    visit(cgroup.folder + path);
    path.resize(path.find_last_of('/'));
  }
  visit(cgroup.folder);
}

int64_t CgroupMemoryLimit(const std::string& root) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const CgroupPath& cgroup : ReadCgroups(root, "memory")) {
    const char* file = cgroup.v2 ? "/memory.max" : "/memory.limit_in_bytes";
    ForEachLevel(cgroup, [&](const std::string& folder) {
      if (const auto value = ReadNumber(folder + file)) limit = std::min(limit, *value);
    });
  }
  return limit;
}

// CPUs of the tightest quota, rounded down but at least 1.
int CgroupCpus(const std::string& root) {
  int64_t cpus = std::numeric_limits<int>::max();
  const auto narrow = [&](int64_t quota, int64_t period) {
    if (quota > 0 && period > 0) cpus = std::min(cpus, std::max<int64_t>(1, quota / period));
  };
  for (const CgroupPath& cgroup : ReadCgroups(root, "cpu")) {
    ForEachLevel(cgroup, [&](const std::string& folder) {
      if (cgroup.v2) {
        std::istringstream in(ReadLine(folder + "/cpu.max").value_or(""));
        int64_t quota = 0;
        int64_t period = 0;
        if (in >> quota >> period) narrow(quota, period);
      } else {
        narrow(ReadNumber(folder + "/cpu.cfs_quota_us").value_or(0),
               ReadNumber(folder + "/cpu.cfs_period_us").value_or(0));
      }
    });
  }
  return static_cast<int>(cpus);
}

}  // namespace

Result<HostLimits> ReadHostLimits(const std::string& root) {
  HostLimits limits;
  const std::string path = root + "/proc/meminfo";
  std::ifstream file(path);
  std::string word;
  int64_t kib = 0;
  while (file >> word) {
    if (word == "MemTotal:" && file >> kib) break;
  }
  if (kib <= 0) return Status(Code::kIo, path + ": has no MemTotal; is /proc mounted?");
  limits.memory_bytes = std::min(kib * kKiB, CgroupMemoryLimit(root));
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  const int cpus = known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  limits.cpus = std::max(1, std::min(cpus, CgroupCpus(root)));
  return limits;
}

Result<std::vector<coatrack::v1::Device>> OfferCpuSlots(const HostLimits& limits, int slots,
                                                        int64_t reserve_bytes) {
  std::vector<coatrack::v1::Device> devices;
  if (slots == 0) return devices;
  const int64_t slot_bytes = limits.memory_bytes / slots - reserve_bytes;
  if (slot_bytes <= 0) {
    return Status(Code::kInvalidArgument,
                  "cpu_slots: " + std::to_string(slots) + " slots with reserve_bytes " +
                      FormatBytes(reserve_bytes) + " each leave nothing of " +
                      FormatBytes(limits.memory_bytes) + "; offer fewer slots");
  }
  for (int slot = 0; slot < slots; ++slot) {
    coatrack::v1::Device& device = devices.emplace_back();
    device.set_id("cpu:" + std::to_string(slot));
    device.set_kind(coatrack::v1::DEVICE_KIND_CPU);
    device.set_total_bytes(slot_bytes);
    device.set_model("cpu");
    device.set_threads(std::max(1, limits.cpus / slots));
  }
  return devices;
}

Result<std::vector<coatrack::v1::Device>> OfferGpus(const HostLimits& limits, GpuDriver* driver,
                                                    int64_t reserve_bytes) {
  std::vector<coatrack::v1::Device> devices;
  ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, driver->List());
  for (const Gpu& gpu : gpus) {
    const int64_t bytes = gpu.total_bytes - gpu.reserved_bytes - reserve_bytes;
    if (bytes <= 0) {
      return Status(Code::kInvalidArgument, "reserve_bytes: " + FormatBytes(reserve_bytes) +
                                                " leave nothing of GPU " + gpu.uuid + " with " +
                                                FormatBytes(gpu.total_bytes) + "; reserve less");
    }
    coatrack::v1::Device& device = devices.emplace_back();
    device.set_id(gpu.uuid);
    device.set_kind(coatrack::v1::DEVICE_KIND_GPU);
    device.set_total_bytes(bytes);
    device.set_model(gpu.model);
    device.set_threads(std::max(1, limits.cpus / static_cast<int>(gpus.size())));
  }
  return devices;
}

}  // namespace coat
