#include <algorithm>
#include <set>

#include "configs/base/error.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/directory.h"
#include "worker/checkpoint/format.h"

namespace coat {
namespace {

std::string LastComponent(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// Names that stay: the rules of checkpoint.h. `found` is newest first.
std::set<std::string> Kept(const std::vector<CheckpointInfo>& found, int keep, int32_t attempt,
                           const std::vector<std::string>& pinned) {
  std::set<std::string> kept;
  for (const std::string& path : pinned) kept.insert(LastComponent(path));
  bool finite_seen = false;
  for (size_t i = 0; i < found.size(); ++i) {
    const CheckpointInfo& info = found[i];
    bool newest_finite = info.finite && !finite_seen;
    finite_seen = finite_seen || info.finite;
    if (i < static_cast<size_t>(std::max(keep, 1)) || newest_finite || info.attempt > attempt) {
      kept.insert(CompleteName(info.step, info.attempt));
    }
  }
  return kept;
}

bool IsAbandoned(const DirectoryName& name, int32_t attempt, int64_t newest_step) {
  if (name.kind == DirectoryName::Kind::kTrash) return true;
  return name.kind == DirectoryName::Kind::kTemporary &&
         (name.attempt < attempt || (name.attempt == attempt && name.step <= newest_step));
}

void RemoveAbandoned(const std::string& dir, int32_t attempt, int64_t newest_step) {
  for (const std::string& entry : ListFolder(dir)) {
    auto name = ParseDirectoryName(entry);
    if (name && IsAbandoned(*name, attempt, newest_step)) RemoveTree(dir + "/" + entry);
  }
}

}  // namespace

void ApplyRetention(const std::string& dir, int keep, int32_t attempt,
                    const std::vector<std::string>& pinned) {
  std::vector<CheckpointInfo> found = ListCheckpoints(dir, nullptr);
  std::set<std::string> kept = Kept(found, keep, attempt, pinned);
  int64_t newest_step = -1;  // of this attempt
  for (const CheckpointInfo& info : found) {
    if (info.attempt == attempt) newest_step = std::max(newest_step, info.step);
    if (kept.count(CompleteName(info.step, info.attempt)) == 0) {
      MoveToTrash(dir, info.step, info.attempt);
    }
  }
  RemoveAbandoned(dir, attempt, newest_step);
}

}  // namespace coat
