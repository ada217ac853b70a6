#include "worker/supervisor/checkpoint_listing.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "worker/checkpoint/checkpoint.h"

namespace coat {
namespace {

// -1: there is no such folder.
int64_t ChangedNs(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return -1;
  return info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
}

coatrack::v1::Checkpoint ToProto(const std::string& job_id, const CheckpointInfo& info) {
  coatrack::v1::Checkpoint checkpoint;
  checkpoint.set_job_id(job_id);
  checkpoint.set_step(info.step);
  checkpoint.set_attempt(info.attempt);
  checkpoint.set_path(info.path);
  checkpoint.set_bytes(info.bytes);
  checkpoint.mutable_time()->set_seconds(info.time_ms / 1000);
  checkpoint.mutable_time()->set_nanos(static_cast<int32_t>(info.time_ms % 1000) * 1'000'000);
  checkpoint.set_finite(info.finite);
  return checkpoint;
}

bool Later(const coatrack::v1::Checkpoint& a, const coatrack::v1::Checkpoint& b) {
  return std::pair(a.time().seconds(), a.time().nanos()) >
         std::pair(b.time().seconds(), b.time().nanos());
}

}  // namespace

CheckpointListing::CheckpointListing(std::vector<StorageRootDir> roots, const Clock* clock)
    : clock_(clock) {
  for (StorageRootDir& dir : roots) roots_.emplace_back().dir = std::move(dir);
}

void CheckpointListing::Fill(const std::set<std::string>& jobs,
                             coatrack::v1::SyncRequest* request) {
  for (Root& root : roots_) {
    if (clock_->SteadyMs() - root.scanned_ms >= kScanIntervalMs) Scan(&root);
    for (const std::string& job_id : jobs) List(root, job_id, &root.jobs[job_id]);
    coatrack::v1::CheckpointReport report = Report(root);
    root.reported = report.SerializeAsString();
    if (root.reported == root.confirmed) continue;
    // What is sent is all there is now: another worker's report may be newer than our last scan.
    Scan(&root);
    report = Report(root);
    root.reported = report.SerializeAsString();
    *request->add_checkpoints() = std::move(report);
  }
}

void CheckpointListing::Confirm() {
  for (Root& root : roots_) root.confirmed = root.reported;
}

void CheckpointListing::Forget() {
  for (Root& root : roots_) root.confirmed.clear();
}

void CheckpointListing::Scan(Root* root) {
  root->scanned_ms = clock_->SteadyMs();
  std::set<std::string> present;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root->dir.path, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !entry.is_directory(error)) continue;
    present.insert(name);
    List(*root, name, &root->jobs[name]);
  }
  if (error) spdlog::warn("{}: {}", root->dir.path, error.message());
  std::erase_if(root->jobs, [&](const auto& job) { return present.count(job.first) == 0; });
}

void CheckpointListing::List(const Root& root, const std::string& job_id, Job* job) {
  const std::string folder = root.dir.path + "/" + job_id;
  const int64_t changed_ns = ChangedNs(folder);
  if (changed_ns == job->changed_ns) return;
  *job = {changed_ns, {}};
  if (changed_ns < 0) return;
  std::vector<std::string> skipped;
  for (const CheckpointInfo& info : ListCheckpoints(folder, &skipped)) {
    job->checkpoints.push_back(ToProto(job_id, info));
  }
  for (const std::string& reason : skipped) spdlog::warn("checkpoint passed over: {}", reason);
}

coatrack::v1::CheckpointReport CheckpointListing::Report(const Root& root) const {
  std::vector<coatrack::v1::Checkpoint> all;
  for (const auto& [job_id, job] : root.jobs) {
    all.insert(all.end(), job.checkpoints.begin(), job.checkpoints.end());
  }
  if (all.size() > static_cast<size_t>(kMaxListedCheckpoints)) {
    std::nth_element(all.begin(), all.begin() + kMaxListedCheckpoints, all.end(), Later);
    all.resize(kMaxListedCheckpoints);
  }
  coatrack::v1::CheckpointReport report;
  report.set_root_uuid(root.dir.uuid);
  for (auto& checkpoint : all) *report.add_checkpoints() = std::move(checkpoint);
  return report;
}

}  // namespace coat
