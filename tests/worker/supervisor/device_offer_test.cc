#include "worker/supervisor/device_offer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "configs/base/units.h"
#include "tests/support/process.h"

namespace coat {
namespace {

class HostLimitsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string full = dir_.file(path);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    testing::WriteFile(full, text);
  }
  HostLimits Read() {
    const auto limits = ReadHostLimits(dir_.path().string());
    EXPECT_TRUE(limits.ok()) << limits.status().message();
    return limits.ok() ? *limits : HostLimits{};
  }
  testing::TempDir dir_;
};

TEST_F(HostLimitsTest, WithoutCgroupsRamDecides) {
  Write("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
  EXPECT_EQ(Read().memory_bytes, kGiB);
}

TEST_F(HostLimitsTest, TheTightestGroupOfVersionTwoDecides) {
  Write("proc/meminfo", "MemTotal:       8388608 kB\n");
  Write("proc/self/cgroup", "0::/pods/one\n");
  Write("sys/fs/cgroup/pods/one/memory.max", "max\n");
  Write("sys/fs/cgroup/pods/memory.max", "2147483648\n");
  Write("sys/fs/cgroup/pods/one/cpu.max", "100000 100000\n");
  const HostLimits limits = Read();
  EXPECT_EQ(limits.memory_bytes, 2 * kGiB);
  EXPECT_EQ(limits.cpus, 1);
}

TEST_F(HostLimitsTest, VersionOneCountsTooAndUnlimitedIsNoLimit) {
  Write("proc/meminfo", "MemTotal:       8388608 kB\n");
  Write("proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Read().memory_bytes, 8 * kGiB);
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(Read().memory_bytes, kGiB);
}

TEST_F(HostLimitsTest, NamesTheFileThatIsMissing) {
  const auto limits = ReadHostLimits(dir_.path().string());
  ASSERT_FALSE(limits.ok());
  EXPECT_NE(limits.status().message().find("proc/meminfo"), std::string::npos);
}

TEST(OfferCpuSlots, SharesMemoryAndThreadsAndKeepsTheReserve) {
  const auto devices = OfferCpuSlots({8 * kGiB, 6}, 2, kGiB);
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 2);
  EXPECT_EQ((*devices)[1].id(), "cpu:1");
  EXPECT_EQ((*devices)[1].total_bytes(), 3 * kGiB);
  EXPECT_EQ((*devices)[1].threads(), 3);
  EXPECT_EQ((*devices)[1].kind(), coatrack::v1::DEVICE_KIND_CPU);
}

TEST(OfferCpuSlots, OffersNothingForZeroSlotsAndRefusesTooMany) {
  EXPECT_TRUE(OfferCpuSlots({kGiB, 2}, 0, kGiB)->empty());
  const auto devices = OfferCpuSlots({kGiB, 2}, 4, kGiB / 4);
  ASSERT_FALSE(devices.ok());
  EXPECT_NE(devices.status().message().find("cpu_slots"), std::string::npos);
}

TEST(OfferCpuSlots, ASlotHasAtLeastOneThread) {
  EXPECT_EQ((*OfferCpuSlots({8 * kGiB, 1}, 3, 0))[2].threads(), 1);
}

class TwoGpus final : public GpuDriver {
 public:
  Result<std::vector<Gpu>> List() override {
    return std::vector<Gpu>{{"GPU-1a", "NVIDIA H200", 100 * kGiB, kGiB},
                            {"GPU-2b", "NVIDIA H200", 100 * kGiB, kGiB}};
  }
  Result<GpuUsage> Usage(const std::string&) override { return GpuUsage(); }
};

TEST(OfferGpus, OffersWhatDriverAndContextLeave) {
  TwoGpus driver;
  const auto devices = OfferGpus({8 * kGiB, 16}, &driver, kGiB / 2);
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_EQ(devices->size(), 2);
  EXPECT_EQ((*devices)[0].id(), "GPU-1a");
  EXPECT_EQ((*devices)[1].id(), "GPU-2b");
  EXPECT_EQ((*devices)[1].kind(), coatrack::v1::DEVICE_KIND_GPU);
  EXPECT_EQ((*devices)[1].total_bytes(), 99 * kGiB - kGiB / 2);
  EXPECT_EQ((*devices)[1].model(), "NVIDIA H200");
  EXPECT_EQ((*devices)[1].threads(), 8);
}

TEST(OfferGpus, NamesTheGpuThatHasNothingLeft) {
  TwoGpus driver;
  const auto devices = OfferGpus({8 * kGiB, 16}, &driver, 99 * kGiB);
  ASSERT_FALSE(devices.ok());
  EXPECT_NE(devices.status().message().find("GPU-1a"), std::string::npos);
}

}  // namespace
}  // namespace coat
