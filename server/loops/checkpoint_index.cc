#include "server/loops/checkpoint_index.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "server/jobs/job_record.h"

namespace coat {
namespace {

using coatrack::v1::Checkpoint;

bool Newer(const Checkpoint& a, const Checkpoint& b) {
  return std::tuple(a.step(), a.attempt()) > std::tuple(b.step(), b.attempt());
}

bool SamePaths(const std::vector<Checkpoint>& a, const std::vector<Checkpoint>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Checkpoint& x, const Checkpoint& y) { return x.path() == y.path(); });
}

}  // namespace

std::string DirectoryName(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return "";
  const size_t slash = path.rfind('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end - begin + 1);
}

std::vector<std::string> CheckpointIndex::Report(const coatrack::v1::CheckpointReport& report) {
  Jobs jobs;
  for (const Checkpoint& checkpoint : report.checkpoints()) {
    jobs[checkpoint.job_id()].push_back(checkpoint);
  }
  Jobs& known = roots_[report.root_uuid()];
  std::vector<std::string> changed;
  for (auto& [job, list] : jobs) {
    std::sort(list.begin(), list.end(), Newer);
    const auto old = known.find(job);
    if (old == known.end() || !SamePaths(old->second, list)) changed.push_back(job);
  }
  for (const auto& [job, list] : known) {
    if (!jobs.contains(job)) changed.push_back(job);
  }
  known = std::move(jobs);
  return changed;
}

void CheckpointIndex::Add(const std::string& root_uuid, const std::string& job,
                          const std::string& directory, int64_t bytes, int64_t wall_ms) {
  Checkpoint checkpoint;
  checkpoint.set_job_id(job);
  checkpoint.set_path(directory);
  long long step = 0;
  int attempt = 0;
  if (std::sscanf(DirectoryName(directory).c_str(), "step-%lld.attempt-%d", &step, &attempt) != 2) {
    return;
  }
  checkpoint.set_step(step);
  checkpoint.set_attempt(attempt);
  checkpoint.set_bytes(bytes);
  checkpoint.set_finite(true);
  *checkpoint.mutable_time() = ToTimestamp(wall_ms);
  std::vector<Checkpoint>& list = roots_[root_uuid][job];
  const auto same = [&](const Checkpoint& known) {
    return DirectoryName(known.path()) == DirectoryName(directory);
  };
  if (std::any_of(list.begin(), list.end(), same)) return;
  list.insert(std::upper_bound(list.begin(), list.end(), checkpoint, Newer), checkpoint);
}

std::vector<Checkpoint> CheckpointIndex::List(const std::string& root_uuid,
                                              const std::string& job) const {
  std::vector<Checkpoint> all;
  for (const auto& [uuid, jobs] : roots_) {
    if (!root_uuid.empty() && uuid != root_uuid) continue;
    const auto found = jobs.find(job);
    if (found != jobs.end()) all.insert(all.end(), found->second.begin(), found->second.end());
  }
  std::stable_sort(all.begin(), all.end(), Newer);
  return all;
}

const Checkpoint* CheckpointIndex::Find(const std::string& root_uuid, const std::string& job,
                                        int64_t step) const {
  const auto root = roots_.find(root_uuid);
  if (root == roots_.end()) return nullptr;
  const auto found = root->second.find(job);
  if (found == root->second.end()) return nullptr;
  for (const Checkpoint& checkpoint : found->second) {
    if (step < 0 || checkpoint.step() == step) return &checkpoint;
  }
  return nullptr;
}

std::vector<std::string> CheckpointIndex::RootsOf(const std::string& job, int64_t step) const {
  std::vector<std::string> uuids;
  for (const auto& [uuid, jobs] : roots_) {
    if (Find(uuid, job, step) != nullptr) uuids.push_back(uuid);
  }
  return uuids;
}

}  // namespace coat
