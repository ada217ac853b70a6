#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/supervisor/gpu_driver.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

const char kFake[] = COAT_BINARY_DIR "/tests/libfake_nvml.so";

TEST(Nvml, ListsGpusByUuid) {
  const auto driver = LoadNvml(kFake);
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  const auto gpus = driver.value()->List();
  ASSERT_TRUE(gpus.ok()) << gpus.status().message();
  ASSERT_EQ(gpus->size(), 2);
  EXPECT_EQ((*gpus)[1].uuid, "GPU-1");
  EXPECT_EQ((*gpus)[1].model, "Fake H200");
  EXPECT_EQ((*gpus)[1].total_bytes, int64_t{64} << 30);
  EXPECT_EQ((*gpus)[1].reserved_bytes, int64_t{1} << 30);
}

TEST(Nvml, AsksAgainWithMoreRoom) {
  const auto driver = LoadNvml(kFake);
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  EXPECT_TRUE(driver.value()->Usage("GPU-0")->processes.empty());
  EXPECT_EQ(driver.value()->Usage("GPU-0")->used_bytes, 0);
  const auto usage = driver.value()->Usage("GPU-1");
  ASSERT_TRUE(usage.ok()) << usage.status().message();
  ASSERT_EQ(usage->processes.size(), 20);
  EXPECT_EQ(usage->processes.back(), 1019);
  EXPECT_EQ(usage->used_bytes, int64_t{3} << 30);
  EXPECT_THAT(driver.value()->Usage("nothing").status().message(), HasSubstr("Not Found"));
}

TEST(Nvml, WithoutDriverSaysWhichLibraryIsMissing) {
  const auto none = LoadNvml("libno-such-driver.so.1");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(none.status().message(), HasSubstr("libno-such-driver.so.1"));
  const auto other = LoadNvml("libc.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.status().message(), HasSubstr("has no nvmlInit_v2"));
}

}  // namespace
}  // namespace coat
