// Every file a person may copy: it loads, validates and can be planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "configs/spec/defaults.h"
#include "configs/spec/load.h"
#include "configs/spec/writer.h"
#include "worker/memory/plan.h"

namespace coat {
namespace {

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(COAT_SOURCE_DIR "/configs/" + folder)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class JobFilesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(JobFilesTest, LoadsAndReadsBackEqual) {
  const auto job = LoadJobFile(GetParam());
  ASSERT_TRUE(job.ok()) << job.status().message();
  LoadedJob again;
  ASSERT_TRUE(LoadJobText(ToYaml(job->written), "written", {}, &again).empty());
  EXPECT_EQ(CanonicalText(again.written), CanonicalText(job->written));
}

TEST_P(JobFilesTest, Plans) {
  const auto job = LoadJobFile(GetParam());
  ASSERT_TRUE(job.ok()) << job.status().message();
  const int ranks = job->spec.resources().ranks();
  const bool gpu = job->spec.resources().device() == coatrack::v1::DEVICE_KIND_GPU;
  const DeviceType device = gpu ? DeviceType::kCuda : DeviceType::kCpu;
  const MemoryPlan plan = MakePlan(job->spec, 0, ranks, device);
  EXPECT_GT(plan.parameters, 0);
  EXPECT_GT(plan.total_bytes, 2 * plan.parameters);
  const MemoryPlan bf16 = MakePlan(Bf16Counterpart(job->spec), 0, ranks, device);
  EXPECT_LE(plan.total_bytes, bf16.total_bytes);
}

INSTANTIATE_TEST_SUITE_P(Jobs, JobFilesTest, ::testing::ValuesIn(FilesOf("jobs")), TestName);

TEST(DaemonFilesTest, ServerFileIsTheDefaults) {
  const auto file = LoadServerConfig(COAT_SOURCE_DIR "/configs/daemons/server.yaml");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto defaults = LoadServerConfig("");
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(ToYaml(*file), ToYaml(*defaults));
}

TEST(DaemonFilesTest, WorkerFileIsTheDefaultsButForItsFolders) {
  auto file = LoadWorkerConfig(COAT_SOURCE_DIR "/configs/daemons/worker.yaml");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->roots(0).name(), "default");
  file->clear_roots();
  const auto defaults = LoadWorkerConfig("", {"data_root=\"~/coatrack/data\""});
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(ToYaml(*file), ToYaml(*defaults));
}

}  // namespace
}  // namespace coat
