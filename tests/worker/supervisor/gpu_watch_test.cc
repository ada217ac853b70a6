#include "worker/supervisor/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/process.h"

namespace coat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class FakeDriver final : public GpuDriver {
 public:
  Result<std::vector<Gpu>> List() override { return std::vector<Gpu>(); }
  Result<std::vector<pid_t>> Processes(const std::string& uuid) override {
    if (!answers) return Status(Code::kFailedPrecondition, "gone");
    return processes[uuid];
  }
  std::map<std::string, std::vector<pid_t>> processes;
  bool answers = true;
};

class GpuWatchTest : public ::testing::Test {
 protected:
  void SetCommand(pid_t pid, std::vector<std::string> arguments) {
    std::string text;
    for (const std::string& argument : arguments) text += argument + '\0';
    const std::string dir = dir_.file(std::to_string(pid));
    std::filesystem::create_directories(dir);
    testing::WriteFile(dir + "/cmdline", text);
  }
  testing::TempDir dir_;
  FakeDriver driver_;
  GpuWatch watch_{&driver_, {"GPU-a", "GPU-b"}, "/state", dir_.path().string()};
};

TEST_F(GpuWatchTest, AGpuIsHeldUntilTheDriverLetsTheProcessGo) {
  SetCommand(7, {"/bin/coat-train", "--rank-dir", "/state/attempts/job1/1/0"});
  driver_.processes["GPU-b"] = {7};
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  SetCommand(7, {});  // ends: its memory is gone, the driver still cleans up
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  driver_.answers = false;
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), ElementsAre(Pair("GPU-b", "job1")));
  driver_.answers = true;
  driver_.processes.clear();
  EXPECT_TRUE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
  EXPECT_FALSE(watch_.Poll());
}

TEST_F(GpuWatchTest, ProcessesOfOthersDoNotCount) {
  SetCommand(8, {"python", "train.py"});
  SetCommand(9, {"/bin/coat-train", "--rank-dir", "/other/attempts/job1/1/0"});
  driver_.processes["GPU-a"] = {8, 9, 10};
  EXPECT_FALSE(watch_.Poll());
  EXPECT_THAT(watch_.Holders(), IsEmpty());
}

TEST_F(GpuWatchTest, WithoutADriverNothingIsHeld) {
  GpuWatch none(nullptr, {}, "/state");
  EXPECT_FALSE(none.Poll());
  EXPECT_THAT(none.Holders(), IsEmpty());
}

}  // namespace
}  // namespace coat
