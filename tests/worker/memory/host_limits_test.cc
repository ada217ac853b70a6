#include "worker/memory/host_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "configs/base/units.h"

namespace coat {
namespace {

namespace fs = std::filesystem;

class HostLimits : public ::testing::Test {
 protected:
  HostLimits() {
    std::string name = (fs::temp_directory_path() / "host_limits.XXXXXX").string();
    root_ = mkdtemp(name.data());
    Write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");  // 8 GiB
  }
  ~HostLimits() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  int64_t Available() const { return AvailableHostBytes(root_.string()); }

  fs::path root_;
};

TEST_F(HostLimits, RamAloneWithoutGroups) { EXPECT_EQ(Available(), 8 * kGiB); }

TEST_F(HostLimits, VersionTwoCountsTheTightestLevelAndNotThePageCache) {
  Write("proc/self/cgroup", "0::/jobs/one\n");
  Write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  Write("sys/fs/cgroup/jobs/one/memory.current", std::to_string(kGiB));
  Write("sys/fs/cgroup/jobs/memory.max", std::to_string(4 * kGiB));
  Write("sys/fs/cgroup/jobs/memory.current", std::to_string(3 * kGiB));
  Write("sys/fs/cgroup/jobs/memory.stat",
        "anon 1\ninactive_file " + std::to_string(kGiB) + "\nactive_file " + std::to_string(kGiB));
  EXPECT_EQ(Available(), 3 * kGiB);
}

TEST_F(HostLimits, AContainerSeesItsGroupAsTheRoot) {
  Write("proc/self/cgroup", "0::/kubepods/pod7/c\n");  // no such folder in here
  Write("sys/fs/cgroup/memory.max", std::to_string(2 * kGiB));
  Write("sys/fs/cgroup/memory.current", std::to_string(kGiB / 2));
  EXPECT_EQ(Available(), 3 * kGiB / 2);
}

TEST_F(HostLimits, VersionOne) {
  Write("proc/self/cgroup", "4:memory:/a\n2:cpu:/b\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(2 * kGiB));
  Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(kGiB));
  Write("sys/fs/cgroup/memory/a/memory.stat", "total_active_file 1024\ntotal_inactive_file 0\n");
  EXPECT_EQ(Available(), kGiB + 1024);
}

TEST_F(HostLimits, AFullGroupLeavesNothing) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "1000\n");
  Write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(Available(), 0);
}

TEST(HostLimitsHere, AreFoundOnThisMachine) {
  EXPECT_GT(AvailableHostBytes(), kMiB);
  EXPECT_LT(AvailableHostBytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace coat
