#include "server/loops/checkpoint_index.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

void Add(coatrack::v1::CheckpointReport* report, const std::string& job, int64_t step,
         int32_t attempt) {
  coatrack::v1::Checkpoint* checkpoint = report->add_checkpoints();
  checkpoint->set_job_id(job);
  checkpoint->set_step(step);
  checkpoint->set_attempt(attempt);
  checkpoint->set_path("/r/" + job + "/step-" + std::to_string(step) + ".attempt-" +
                       std::to_string(attempt));
}

TEST(CheckpointIndexTest, TheNewestOfTheHighestAttemptComesFirst) {
  CheckpointIndex index;
  coatrack::v1::CheckpointReport report;
  report.set_root_uuid("u");
  Add(&report, "job", 10, 1);
  Add(&report, "job", 20, 1);
  Add(&report, "job", 20, 2);
  EXPECT_EQ(index.Report(report), std::vector<std::string>{"job"});
  EXPECT_TRUE(index.Report(report).empty()) << "nothing changed";
  EXPECT_EQ(DirectoryName(index.Find("u", "job", -1)->path()), "step-20.attempt-2");
  EXPECT_EQ(index.Find("u", "job", 10)->attempt(), 1);
  EXPECT_EQ(index.Find("other", "job", -1), nullptr);
  EXPECT_EQ(index.List("", "job").size(), 3u);
}

TEST(CheckpointIndexTest, AReportIsTheWholeListOfItsRoot) {
  CheckpointIndex index;
  coatrack::v1::CheckpointReport report;
  report.set_root_uuid("u");
  Add(&report, "job", 10, 1);
  index.Report(report);
  report.clear_checkpoints();
  EXPECT_EQ(index.Report(report), std::vector<std::string>{"job"});
  EXPECT_EQ(index.Find("u", "job", -1), nullptr);
}

TEST(CheckpointIndexTest, OneJustCommittedIsKnownBeforeTheNextReport) {
  CheckpointIndex index;
  index.Add("u", "job", "/somewhere/step-30.attempt-2/", 5, 0);
  index.Add("u", "job", "step-30.attempt-2", 5, 0);
  index.Add("u", "job", "not a checkpoint", 5, 0);
  EXPECT_EQ(index.List("u", "job").size(), 1u);
  EXPECT_EQ(index.Find("u", "job", -1)->step(), 30);
  EXPECT_EQ(index.RootsOf("job", 30), std::vector<std::string>{"u"});
  EXPECT_TRUE(index.RootsOf("job", 31).empty());
}

}  // namespace
}  // namespace coat
