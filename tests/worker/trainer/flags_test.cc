#include "worker/trainer/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TrainFlags, BothSpellings) {
  const Result<TrainFlags> flags = ParseTrainFlags(
      {"--job", "a.yaml", "--nproc=2", "--set", "train.steps=3", "--set=labels.a=b=c", "-q",
       "--resume", "--out", "runs", "--data-root=/data", "--threads", "4"});
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->job, "a.yaml");
  EXPECT_EQ(flags->nproc, 2);
  EXPECT_THAT(flags->overrides, ElementsAre("train.steps=3", "labels.a=b=c"));
  EXPECT_TRUE(flags->quiet);
  EXPECT_TRUE(flags->resume);
  EXPECT_EQ(flags->out, "runs");
  EXPECT_EQ(flags->data_root, "/data");
  EXPECT_EQ(flags->threads, 4);
}

TEST(TrainFlags, FaultsNameTheFlag) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "--job is required"},
      {{"--job"}, "--job needs a value"},
      {{"--job", ""}, "empty"},
      {{"--job", "a", "--nproc", "0"}, "--nproc takes a number from 1"},
      {{"--job", "a", "--nproc=2x"}, "'2x'"},
      {{"--job", "a", "--threads", "-1"}, "--threads"},
      {{"--job", "a", "--set", "steps"}, "path=value"},
      {{"--job", "a", "--resume=yes"}, "--resume takes no value"},
      {{"--jobs", "a"}, "'--jobs'"},
      {{"a.yaml"}, "'a.yaml'"},
  };
  for (const auto& [arguments, what] : cases) {
    const Status status = ParseTrainFlags(arguments).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << what;
    EXPECT_THAT(status.message(), HasSubstr(what));
    EXPECT_THAT(status.message(), HasSubstr("--help"));
  }
}

TEST(TrainFlags, HelpNamesEveryFlag) {
  EXPECT_TRUE(ParseTrainFlags({"-h"})->help);
  EXPECT_TRUE(ParseTrainFlags({"--version"})->version);
  EXPECT_EQ(ParseTrainFlags({"--rank-dir", "/x"})->rank_dir, "/x");
  for (const char* flag : {"--job", "--nproc", "--data-root", "--out", "--threads", "--set",
                           "--resume", "--quiet", "--rank-dir", "--version", "--help"}) {
    EXPECT_THAT(TrainHelp(), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace coat
