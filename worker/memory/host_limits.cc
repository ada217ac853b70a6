#include "worker/memory/host_limits.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "configs/base/units.h"

namespace coat {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Sum of the values behind `keys` in a file of lines "key value ...".
int64_t SumOfKeys(const std::string& path, std::initializer_list<std::string_view> keys) {
  std::ifstream file(path);
  int64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    int64_t value = 0;
    if (words >> key >> value && std::find(keys.begin(), keys.end(), key) != keys.end()) {
      sum += value;
    }
  }
  return sum;
}

// Nothing when there is no such file, or it says "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

struct GroupFiles {
  const char* root;
  const char *limit, *used;
  const char *active_cache, *inactive_cache;  // keys of memory.stat
};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "active_file",
                                  "inactive_file"};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_active_file",
                                  "total_inactive_file"};

int64_t FreeInGroup(const std::string& folder, const GroupFiles& files) {
  const auto limit = ReadNumber(folder + "/" + files.limit);
  const auto used = ReadNumber(folder + "/" + files.used);
  if (!limit || !used) return kUnlimited;
  const int64_t cache =
      SumOfKeys(folder + "/memory.stat", {files.active_cache, files.inactive_cache});
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cache));
}

// From the group itself up to the root. A container often sees its own group as the root, while
// /proc/self/cgroup names a folder that is not there: missing folders limit nothing.
int64_t FreeInGroups(const std::string& root, const std::string& group, const GroupFiles& files) {
  const std::string top = root + files.root;
  std::string folder = top + group;
  int64_t free = kUnlimited;
  while (true) {
    free = std::min(free, FreeInGroup(folder, files));
    if (folder.size() == top.size()) return free;
    folder.erase(folder.find_last_of('/'));
  }
}

}  // namespace

int64_t AvailableHostBytes(const std::string& root) {
  const int64_t kib = SumOfKeys(root + "/proc/meminfo", {"MemAvailable:"});
  int64_t free = kib > 0 ? kib * kKiB : kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/path" or "4:memory:/path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group.empty() || group.front() != '/') continue;
    if (group == "/") group.clear();
    if (controllers.empty()) free = std::min(free, FreeInGroups(root, group, kVersion2));
    if (controllers == "memory") free = std::min(free, FreeInGroups(root, group, kVersion1));
  }
  return free;
}

int64_t AvailableHostBytes() { return AvailableHostBytes(""); }

}  // namespace coat
