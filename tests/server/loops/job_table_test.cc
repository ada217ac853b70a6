#include "server/loops/job_table.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

JobRecord Record(const std::string& id, int64_t sequence, const std::string& name) {
  coatrack::v1::JobSpec spec;
  spec.set_name(name);
  JobRecord record = NewJob(id, sequence, spec, spec, {});
  record.row.mutable_job()->set_request_id("request " + id);
  return record;
}

TEST(JobTableTest, ResolvesIdsPrefixesAndTheNewestOfAName) {
  JobTable table;
  table.Add(Record("abcd1111", 1, "tiny"));
  table.Add(Record("abcd2222", 2, "tiny"));
  EXPECT_EQ(table.Resolve("abcd1111")->sequence, 1);
  EXPECT_EQ(table.Resolve("abcd1")->sequence, 1);
  EXPECT_EQ(table.Resolve("tiny")->id, "abcd2222");
  const auto several = table.Resolve("abcd");
  EXPECT_EQ(several.status().code(), Code::kInvalidArgument);
  EXPECT_NE(several.status().message().find("abcd2222"), std::string::npos);
  EXPECT_EQ(table.Resolve("abc").status().code(), Code::kNotFound);
  EXPECT_EQ(table.Resolve("").status().code(), Code::kInvalidArgument);
}

TEST(JobTableTest, CountsFinishedJobsByState) {
  JobTable table;
  table.Add(Record("abcd1111", 1, "tiny"));
  FinishedJob loaded;
  loaded.sequence = 2;
  loaded.id = "abcd2222";
  loaded.state = coatrack::v1::JOB_STATE_FAILED;
  table.AddFinished(loaded);
  table.Live(1)->row.mutable_job()->set_state(coatrack::v1::JOB_STATE_SUCCEEDED);
  table.Finish(1);
  using Counts = std::map<coatrack::v1::JobState, int64_t>;
  EXPECT_EQ(table.finished_by_state(),
            (Counts{{coatrack::v1::JOB_STATE_SUCCEEDED, 1}, {coatrack::v1::JOB_STATE_FAILED, 1}}));
  loaded.state = coatrack::v1::JOB_STATE_CANCELLED;
  table.AddFinished(loaded);
  table.Remove(1);
  EXPECT_EQ(table.finished_by_state().at(coatrack::v1::JOB_STATE_SUCCEEDED), 0);
  EXPECT_EQ(table.finished_by_state().at(coatrack::v1::JOB_STATE_FAILED), 0);
  EXPECT_EQ(table.finished_by_state().at(coatrack::v1::JOB_STATE_CANCELLED), 1);
}

TEST(JobTableTest, AFinishedJobKeepsItsLine) {
  JobTable table;
  table.Add(Record("abcd1111", 1, "tiny"));
  table.Finish(1);
  EXPECT_EQ(table.Live(1), nullptr);
  EXPECT_EQ(table.Resolve("tiny")->id, "abcd1111");
  EXPECT_EQ(table.FindRequest("request abcd1111")->sequence, 1);
  table.Remove(1);
  EXPECT_FALSE(table.Resolve("tiny").ok());
  EXPECT_EQ(table.FindRequest("request abcd1111"), nullptr);
}

}  // namespace
}  // namespace coat
