#include <algorithm>
#include <filesystem>
#include <tuple>

#include "configs/base/error.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/directory.h"

namespace coat {

std::vector<CheckpointInfo> ListCheckpoints(const std::string& dir,
                                            std::vector<std::string>* skipped) {
  std::vector<CheckpointInfo> found;
  if (!std::filesystem::exists(dir)) return found;
  for (const std::string& name : ListFolder(dir)) {
    auto parsed = ParseDirectoryName(name);
    if (!parsed || parsed->kind != DirectoryName::Kind::kComplete) continue;
    try {
      found.push_back(ReadManifest(dir + "/" + name).info);
    } catch (const Error& reason) {
      if (skipped != nullptr) skipped->push_back(reason.what());
    }
  }
  std::sort(found.begin(), found.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
    return std::tie(a.step, a.attempt) > std::tie(b.step, b.attempt);
  });
  return found;
}

std::unique_ptr<CheckpointReader> OpenNewest(const std::string& dir,
                                             std::vector<std::string>* skipped) {
  for (const CheckpointInfo& info : ListCheckpoints(dir, skipped)) {
    try {
      return std::make_unique<CheckpointReader>(info.path);
    } catch (const Error& reason) {
      if (skipped != nullptr) skipped->push_back(reason.what());
    }
  }
  return nullptr;
}

}  // namespace coat
