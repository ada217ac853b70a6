#include "worker/supervisor/gpu_watch.h"

#include <fstream>
#include <iterator>

namespace coat {

GpuWatch::GpuWatch(GpuDriver* driver, std::vector<std::string> uuids, std::string state_dir,
                   std::string proc)
    : driver_(driver),
      uuids_(std::move(uuids)),
      attempts_dir_(state_dir + "/attempts/"),
      proc_(std::move(proc)) {}

bool GpuWatch::Poll() {
  if (driver_ == nullptr) return false;
  bool cleaned = false;
  for (const std::string& uuid : uuids_) {
    const Result<std::vector<pid_t>> listed = driver_->Processes(uuid);
    if (!listed.ok()) continue;
    const std::lock_guard lock(mutex_);
    std::map<pid_t, std::string>& before = ours_[uuid];
    std::map<pid_t, std::string> now;
    for (const pid_t pid : *listed) {
      const auto known = before.find(pid);
      const std::string job = known != before.end() ? known->second : JobOf(pid);
      if (!job.empty()) now[pid] = job;
    }
    cleaned |= now.empty() && !before.empty();
    before = std::move(now);
  }
  return cleaned;
}

std::map<std::string, std::string> GpuWatch::Holders() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> holders;
  for (const auto& [uuid, processes] : ours_) {
    if (!processes.empty()) holders[uuid] = processes.begin()->second;
  }
  return holders;
}

std::string GpuWatch::JobOf(pid_t pid) const {
  std::ifstream file(proc_ + "/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (size_t begin = 0; begin < text.size(); begin = text.find('\0', begin) + 1) {
    const std::string argument(text.c_str() + begin);
    if (argument.starts_with(attempts_dir_)) {
      const size_t job = attempts_dir_.size();
      return argument.substr(job, argument.find('/', job) - job);
    }
    if (text.find('\0', begin) == std::string::npos) break;
  }
  return "";
}

}  // namespace coat
