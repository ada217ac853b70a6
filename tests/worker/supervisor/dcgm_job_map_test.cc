#include "worker/supervisor/dcgm_job_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/worker/supervisor/worker_fixture.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

class DcgmJobMapTest : public ::testing::Test {
 protected:
  DcgmJobMap Open() { return DcgmJobMap::Open(dir_.file("map"), {"GPU-a", "GPU-b"}).value(); }
  std::string File(const std::string& name) const {
    return testing::ReadFile(dir_.file("map/" + name));
  }
  bool Exists(const std::string& name) const {
    return std::filesystem::exists(dir_.file("map/" + name));
  }
  testing::TempDir dir_;
};

TEST_F(DcgmJobMapTest, AFileForEachGpuThatAJobHolds) {
  DcgmJobMap map = Open();
  ASSERT_TRUE(map.Update({{"GPU-b", "job1"}, {"cpu:0", "job2"}}).ok());
  EXPECT_EQ(File("1"), "job1\n");
  EXPECT_FALSE(Exists("0")) << "an empty file would take the GPU's series away";
  ASSERT_TRUE(map.Update({{"GPU-a", "job3"}, {"GPU-b", "job4"}}).ok());
  EXPECT_EQ(File("0"), "job3\n");
  EXPECT_EQ(File("1"), "job4\n");
  ASSERT_TRUE(map.Update({{"GPU-a", "job3"}}).ok());
  EXPECT_EQ(File("0"), "job3\n");
  EXPECT_FALSE(Exists("1"));
}

TEST_F(DcgmJobMapTest, WritesOnlyWhatChanged) {
  DcgmJobMap map = Open();
  ASSERT_TRUE(map.Update({{"GPU-a", "job1"}, {"GPU-b", "job2"}}).ok());
  struct stat before {};
  ASSERT_EQ(stat(dir_.file("map/0").c_str(), &before), 0);
  ASSERT_TRUE(map.Update({{"GPU-a", "job1"}, {"GPU-b", "job3"}}).ok());
  struct stat after {};
  ASSERT_EQ(stat(dir_.file("map/0").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "a replaced file is another one";
}

TEST_F(DcgmJobMapTest, AReaderNeverSeesHalfAFile) {
  DcgmJobMap map = Open();
  ASSERT_TRUE(map.Update({{"GPU-a", "job1"}}).ok());
  std::ifstream reader(dir_.file("map/0"));
  ASSERT_TRUE(map.Update({{"GPU-a", "another"}}).ok());
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "job1") << "written over instead of replaced";
  for (const auto& entry : std::filesystem::directory_iterator(dir_.file("map"))) {
    EXPECT_EQ(entry.path().filename(), "0");
  }
}

TEST_F(DcgmJobMapTest, TheFirstUpdateRemovesWhatAnEarlierDaemonLeft) {
  ASSERT_TRUE(Open().Update({{"GPU-a", "old"}, {"GPU-b", "adopted"}}).ok());
  testing::WriteFile(dir_.file("map/7"), "somebody else's\n");
  DcgmJobMap map = Open();
  ASSERT_TRUE(map.Update({{"GPU-b", "adopted"}}).ok());
  EXPECT_FALSE(Exists("0"));
  EXPECT_EQ(File("1"), "adopted\n");
  EXPECT_EQ(File("7"), "somebody else's\n");
}

TEST_F(DcgmJobMapTest, WhatFailedIsTriedAgain) {
  DcgmJobMap map = Open();
  std::filesystem::create_directories(dir_.file("map/0.tmp"));  // in the way
  const Status failed = map.Update({{"GPU-a", "job1"}, {"GPU-b", "job2"}});
  EXPECT_THAT(failed.message(), HasSubstr("map/0.tmp"));
  EXPECT_EQ(File("1"), "job2\n") << "the others are written all the same";
  std::filesystem::remove(dir_.file("map/0.tmp"));
  EXPECT_TRUE(map.Update({{"GPU-a", "job1"}, {"GPU-b", "job2"}}).ok());
  EXPECT_EQ(File("0"), "job1\n");
}

TEST_F(DcgmJobMapTest, NamesAFolderThatCannotBe) {
  testing::WriteFile(dir_.file("file"), "");
  const auto refused = DcgmJobMap::Open(dir_.file("file/map"), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("dcgm_job_dir: " + dir_.file("file/map")));
}

// The daemon's program with a driver that lists GPU-0 and GPU-1.
class JobMapDaemonTest : public testing::WorkerTest {
 protected:
  JobMapDaemonTest() {
    const auto library = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::filesystem::create_symlink(library / "libfake_nvml.so", dir_.file("libnvidia-ml.so.1"));
  }
  std::unique_ptr<testing::Process> Start() const {
    return StartProgram({"--dcgm-job-dir", dir_.file("map")},
                        {"LD_LIBRARY_PATH=" + dir_.path().string()});
  }
  coatrack::v1::DesiredRank OnGpu(const RankId& id, const std::string& gpu) const {
    coatrack::v1::DesiredRank rank = Rank(id);
    rank.set_device(gpu);
    return rank;
  }
  bool WaitForFile(const std::string& name, const std::string& content) const {
    return testing::WaitUntil(
        [&] { return testing::ReadFile(dir_.file("map/" + name)) == content; });
  }
};

TEST_F(JobMapDaemonTest, FollowsRanksThroughRestartsOfTheDaemon) {
  const RankId first{"job1", 1, 0};
  const RankId second{"job2", 1, 0};
  auto daemon = Start();
  coordinator_.Want(OnGpu(first, "GPU-0"));
  coordinator_.Want(OnGpu(second, "GPU-1"));
  ASSERT_TRUE(WaitForStep(first, 1)) << testing::ReadFile(dir_.file("worker.log"));
  ASSERT_TRUE(WaitForStep(second, 1));
  EXPECT_TRUE(WaitForFile("0", "job1\n"));
  EXPECT_TRUE(WaitForFile("1", "job2\n"));
  coordinator_.Unwant(first);
  EXPECT_TRUE(WaitForFile("0", ""));
  EXPECT_FALSE(std::filesystem::exists(dir_.file("map/0")));
  // Killed, it leaves its files; the next one adopts the rank, or finds it gone.
  daemon->Signal(SIGKILL);
  daemon->Wait(std::chrono::seconds(10));
  testing::WriteFile(dir_.file("map/0"), "stale\n");
  daemon = Start();
  EXPECT_TRUE(WaitForFile("0", ""));
  EXPECT_EQ(testing::ReadFile(dir_.file("map/1")), "job2\n");
  // Handing over leaves them, draining removes them.
  daemon->Signal(SIGUSR2);
  EXPECT_EQ(daemon->Wait(std::chrono::seconds(10)), 0);
  EXPECT_EQ(testing::ReadFile(dir_.file("map/1")), "job2\n");
  const std::string before = coordinator_.seen().last.incarnation();
  daemon = Start();
  ASSERT_TRUE(coordinator_.WaitFor([&](const testing::FakeCoordinator::Seen& seen) {
    return seen.last.incarnation() != before;
  }));
  daemon->Signal(SIGTERM);
  EXPECT_EQ(daemon->Wait(std::chrono::seconds(20)), 0)
      << testing::ReadFile(dir_.file("worker.log"));
  EXPECT_FALSE(std::filesystem::exists(dir_.file("map/1")));
}

}  // namespace
}  // namespace coat
