#include "worker/supervisor/checkpoint_listing.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

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

}  // namespace

void CheckpointListing::Fill(const std::set<Job>& jobs, coatrack::v1::SyncRequest* request) {
  std::erase_if(listed_, [&](const auto& entry) { return jobs.count(entry.first) == 0; });
  for (const StorageRootDir& root : roots_) {
    auto* report = request->add_checkpoints();
    report->set_root_uuid(root.uuid);
    for (const auto& [uuid, job_id] : jobs) {
      if (uuid != root.uuid) continue;
      for (const auto& checkpoint : List(root, job_id).checkpoints) {
        *report->add_checkpoints() = checkpoint;
      }
    }
  }
}

const CheckpointListing::Listed& CheckpointListing::List(const StorageRootDir& root,
                                                         const std::string& job_id) {
  Listed& listed = listed_[{root.uuid, job_id}];
  const std::string folder = root.path + "/" + job_id;
  const int64_t changed_ns = ChangedNs(folder);
  if (changed_ns == listed.changed_ns) return listed;
  listed = {changed_ns, {}};
  if (changed_ns < 0) return listed;
  std::vector<std::string> skipped;
  for (const CheckpointInfo& info : ListCheckpoints(folder, &skipped)) {
    listed.checkpoints.push_back(ToProto(job_id, info));
  }
  for (const std::string& reason : skipped) spdlog::warn("checkpoint skipped: {}", reason);
  return listed;
}

}  // namespace coat
