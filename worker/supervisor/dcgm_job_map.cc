#include "worker/supervisor/dcgm_job_map.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "worker/supervisor/identity.h"

namespace coat {

Result<DcgmJobMap> DcgmJobMap::Open(const std::string& dir, std::vector<std::string> uuids) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error || access(dir.c_str(), W_OK) != 0) {
    return Status(Code::kIo, "dcgm_job_dir: " + dir + ": " +
                                 (error ? error.message() : std::strerror(errno)) +
                                 "; let the worker's user write there, or leave it out");
  }
  return DcgmJobMap(dir, std::move(uuids));
}

Status DcgmJobMap::Update(const std::map<std::string, std::string>& holders) {
  Status first_failure;
  for (size_t index = 0; index < uuids_.size(); ++index) {
    const std::string& uuid = uuids_[index];
    const auto holder = holders.find(uuid);
    const std::string job = holder == holders.end() ? "" : holder->second;
    const auto known = written_.find(uuid);
    if (known != written_.end() && known->second == job) continue;
    const Status status = Write(dir_ + "/" + std::to_string(index), job);
    if (status.ok()) {
      written_[uuid] = job;
    } else if (first_failure.ok()) {
      first_failure = status;
    }
  }
  return first_failure;
}

Status DcgmJobMap::Write(const std::string& path, const std::string& job) const {
  // Its temporary name is no number, so that the exporter never reads half a file.
  if (!job.empty()) return ReplaceFile(path, job + "\n");
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return {Code::kIo, path + ": " + std::strerror(errno)};
}

}  // namespace coat
