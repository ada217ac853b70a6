#include "worker/supervisor/gpu_watch.h"

#include <fstream>
#include <iterator>

namespace coat {

GpuWatch::GpuWatch(GpuDriver* driver, std::vector<std::string> uuids, std::string state_dir,
                   const Clock* clock, std::string proc)
    : driver_(driver),
      uuids_(std::move(uuids)),
      attempts_dir_(state_dir + "/attempts/"),
      clock_(clock),
      proc_(std::move(proc)) {}

bool GpuWatch::Poll() {
  if (driver_ == nullptr) return false;
  const std::lock_guard one_poll(poll_mutex_);
  bool cleaned = false;
  for (const std::string& uuid : uuids_) {
    const Result<GpuUsage> usage = driver_->Usage(uuid);
    if (!usage.ok()) continue;
    const std::lock_guard lock(mutex_);
    State& state = states_[uuid];
    const bool was_held = !state.holder.empty();
    Update(*usage, &state);
    cleaned |= was_held && state.holder.empty();
  }
  return cleaned;
}

void GpuWatch::Update(const GpuUsage& usage, State* state) const {
  std::map<pid_t, std::string> ours;
  std::set<pid_t> others;
  for (const pid_t pid : usage.processes) {
    const auto known = state->ours.find(pid);
    const std::string job = known != state->ours.end() ? known->second : JobOf(pid);
    if (job.empty()) {
      others.insert(pid);
    } else {
      ours[pid] = job;
    }
  }
  state->ours = std::move(ours);
  if (!state->ours.empty()) {
    state->holder = state->ours.begin()->second;
    state->left_ms = clock_->SteadyMs();
    return;
  }
  const bool memory_left = !state->holder.empty() && state->clean_bytes >= 0 &&
                           others == state->others &&
                           usage.used_bytes > state->clean_bytes + kToleratedBytes;
  if (memory_left && clock_->SteadyMs() - state->left_ms < kLongestWaitMs) return;
  state->holder.clear();
  state->others = std::move(others);
  state->clean_bytes = usage.used_bytes;
}

std::map<std::string, std::string> GpuWatch::Holders() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> holders;
  for (const auto& [uuid, state] : states_) {
    if (!state.holder.empty()) holders[uuid] = state.holder;
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
