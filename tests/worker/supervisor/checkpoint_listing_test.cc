#include "worker/supervisor/checkpoint_listing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "tests/support/manual_clock.h"
#include "tests/support/process.h"
#include "worker/checkpoint/checkpoint.h"

namespace coat {
namespace {

class CheckpointListingTest : public ::testing::Test {
 protected:
  void Save(const std::string& job, int64_t step) {
    const std::string dir = dir_.file(job);
    std::filesystem::create_directories(dir);
    const float value = 1;
    HostTensor tensor;
    tensor.name = "w";
    tensor.shape = {1};
    tensor.count = 1;
    tensor.data = &value;
    const std::string temporary = TemporaryDir(dir, step, 1);
    std::filesystem::create_directories(temporary);
    WriteShard(temporary, 0, {tensor});
    CheckpointInfo info;
    info.step = step;
    info.attempt = 1;
    Commit(dir, info, 1);
  }
  // Steps reported for the job; nothing when no report is due.
  std::optional<std::vector<int64_t>> Fill(const std::string& job,
                                           const std::set<std::string>& jobs = {}) {
    coatrack::v1::SyncRequest request;
    listing_.Fill(jobs, &request);
    if (request.checkpoints().empty()) return std::nullopt;
    EXPECT_EQ(request.checkpoints(0).root_uuid(), "uuid-1");
    std::vector<int64_t> steps;
    for (const auto& checkpoint : request.checkpoints(0).checkpoints()) {
      if (checkpoint.job_id() == job) steps.push_back(checkpoint.step());
    }
    return steps;
  }

  testing::TempDir dir_;
  ManualClock clock_;
  CheckpointListing listing_{{{"default", dir_.path().string(), "uuid-1"}}, &clock_};
};

using Steps = std::vector<int64_t>;

TEST_F(CheckpointListingTest, NamesWhatOtherJobsLeftOnTheRoot) {
  Save("old", 10);
  Save("old", 20);
  EXPECT_EQ(Fill("old"), (Steps{20, 10}));
}

TEST_F(CheckpointListingTest, ReportsUntilItArrivesAndThenOnlyChanges) {
  Save("a", 10);
  EXPECT_EQ(Fill("a"), Steps{10});
  EXPECT_EQ(Fill("a"), Steps{10});
  listing_.Confirm();
  EXPECT_EQ(Fill("a"), std::nullopt);
  Save("b", 5);
  EXPECT_EQ(Fill("b", {"b"}), Steps{5});  // it runs here: seen at once
  listing_.Confirm();
  Save("c", 7);
  EXPECT_EQ(Fill("c"), std::nullopt);
  clock_.now_ms += kScanIntervalMs;
  EXPECT_EQ(Fill("c"), Steps{7});
  listing_.Confirm();
  std::filesystem::remove_all(dir_.file("a"));
  clock_.now_ms += kScanIntervalMs;
  EXPECT_EQ(Fill("a"), Steps{});
}

TEST_F(CheckpointListingTest, ARestartedCoordinatorHearsEverything) {
  Save("a", 10);
  Fill("a");
  listing_.Confirm();
  listing_.Forget();
  EXPECT_EQ(Fill("a"), Steps{10});
}

TEST_F(CheckpointListingTest, LeavesOutWhatIsTorn) {
  Save("a", 10);
  Save("a", 20);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.file("a"))) {
    if (entry.path().filename().string().find("step-20") == 0) {
      std::filesystem::remove(entry.path() / "manifest.json");
    }
  }
  EXPECT_EQ(Fill("a"), Steps{10});
}

}  // namespace
}  // namespace coat
