#include "worker/supervisor/storage_roots.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/support/process.h"

namespace coat {
namespace {

coatrack::v1::StorageRootConfig RootAt(const std::string& path) {
  coatrack::v1::StorageRootConfig config;
  config.set_name("default");
  config.set_path(path);
  return config;
}

TEST(StorageRoots, GivesAFolderOneIdentityForGood) {
  const testing::TempDir dir;
  const auto first = OpenStorageRoot(RootAt(dir.file("a/b")));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->uuid.size(), 36);
  EXPECT_EQ(OpenStorageRoot(RootAt(dir.file("a/b")))->uuid, first->uuid);
  EXPECT_NE(OpenStorageRoot(RootAt(dir.file("c")))->uuid, first->uuid);
}

TEST(StorageRoots, WorkersThatStartAtOnceAgree) {
  const testing::TempDir dir;
  std::vector<std::string> uuids(8);
  std::vector<std::thread> workers;
  for (std::string& uuid : uuids) {
    workers.emplace_back([&] { uuid = OpenStorageRoot(RootAt(dir.file("shared")))->uuid; });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(std::set<std::string>(uuids.begin(), uuids.end()).size(), 1);
}

TEST(StorageRoots, RefusesADamagedIdentityByName) {
  const testing::TempDir dir;
  testing::WriteFile(dir.file(kRootUuidFile), "\n");
  const auto root = OpenStorageRoot(RootAt(dir.path().string()));
  ASSERT_FALSE(root.ok());
  EXPECT_EQ(root.status().code(), Code::kDataLoss);
  EXPECT_NE(root.status().message().find(kRootUuidFile), std::string::npos);
}

TEST(StorageRoots, NamesAFolderThatCannotBeMade) {
  const testing::TempDir dir;
  testing::WriteFile(dir.file("file"), "");
  const auto root = OpenStorageRoot(RootAt(dir.file("file/below")));
  ASSERT_FALSE(root.ok());
  EXPECT_EQ(root.status().code(), Code::kIo);
  EXPECT_NE(root.status().message().find("file/below"), std::string::npos);
}

}  // namespace
}  // namespace coat
