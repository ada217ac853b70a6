#include "configs/spec/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/process.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

class LoadTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    const std::string path = folder_.file("job.yaml");
    testing::WriteFile(path, text);
    return path;
  }

  testing::TempDir folder_;
};

TEST_F(LoadTest, MissingFilesAreNamed) {
  const auto job = LoadJobFile(folder_.file("none.yaml"));
  EXPECT_EQ(job.status().code(), Code::kNotFound);
  EXPECT_THAT(job.status().message(), HasSubstr("none.yaml: cannot be opened: No such file"));
}

TEST_F(LoadTest, AFolderIsRefused) {
  const auto job = LoadJobFile(folder_.path());
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(job.status().message(), HasSubstr(folder_.path().string()));
}

TEST_F(LoadTest, FaultsCarryTheFilesName) {
  const std::string path = Write("name: a\nsteps: 5\n");
  EXPECT_EQ(LoadJobFile(path).status().message(),
            path + ":2: steps: is not a field; write it below 'train'");
}

TEST_F(LoadTest, OverridesWinOverTheFile) {
  const std::string path = Write(R"(name: a
model: {preset: llama-tiny}
data: {text: [x]}
train: {steps: 0, sequence_length: 8, global_batch: 1, micro_batch: 1}
optimizer: {lr: 0.1}
)");
  EXPECT_THAT(LoadJobFile(path).status().message(), HasSubstr(path + ":4: train.steps: is 0"));
  const auto job = LoadJobFile(path, {"train.steps=3"});
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->spec.train().steps(), 3);
  EXPECT_EQ(job->written.train().steps(), 3);
  EXPECT_FALSE(job->written.model().has_layers());
  EXPECT_EQ(job->spec.model().layers(), 4);
}

TEST_F(LoadTest, LargeFilesAreRefusedWithoutReadingThemWhole) {
  const std::string path = Write("");
  std::filesystem::resize_file(path, int64_t{1} << 33);
  EXPECT_THAT(LoadJobFile(path).status().message(), HasSubstr("at most 1 MiB"));
}

}  // namespace
}  // namespace coat
