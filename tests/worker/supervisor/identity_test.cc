#include "worker/supervisor/identity.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/process.h"

namespace coat {
namespace {

TEST(NewUuid, IsAVersionFourUuidAndNew) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = NewUuid();
    ASSERT_EQ(uuid.size(), 36);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
    EXPECT_TRUE(seen.insert(uuid).second);
  }
}

TEST(StateDir, RemembersTheHighestEpoch) {
  const testing::TempDir dir;
  {
    const auto state = StateDir::Open(dir.file("state"));
    ASSERT_TRUE(state.ok());
    EXPECT_EQ((*state)->epoch(), 0);
    EXPECT_TRUE((*state)->RaiseEpoch(7).ok());
    EXPECT_TRUE((*state)->RaiseEpoch(3).ok());
    EXPECT_EQ((*state)->epoch(), 7);
  }
  EXPECT_EQ(StateDir::Open(dir.file("state")).value()->epoch(), 7);
}

TEST(StateDir, IsNotSharedByTwoDaemons) {
  const testing::TempDir dir;
  const auto first = StateDir::Open(dir.file("state"));
  ASSERT_TRUE(first.ok());
  const auto second = StateDir::Open(dir.file("state"));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
}

TEST(StateDir, KeepsTheEpochInMemoryWhenTheDiskRefuses) {
  const testing::TempDir dir;
  const auto state = StateDir::Open(dir.file("state"));
  ASSERT_TRUE(state.ok());
  std::filesystem::create_directory(dir.file("state/epoch.tmp"));  // no file can be written there
  EXPECT_FALSE((*state)->RaiseEpoch(9).ok());
  EXPECT_EQ((*state)->epoch(), 9);
}

TEST(ReplaceFile, FailsWhenTheDiskIsFullAndLeavesNothingBehind) {
  const testing::TempDir dir;
  std::filesystem::create_symlink("/dev/full", dir.file("x.tmp"));
  const Status status = ReplaceFile(dir.file("x"), "text");
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find(dir.file("x")), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir.file("x")));
}

}  // namespace
}  // namespace coat
