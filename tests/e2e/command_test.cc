// The `coat` command against a real cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/cluster.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

TEST(Command, RunsWatchesAndCancels) {
  testing::Cluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.StartServer());
  cluster.StartWorker("w1", 2);
  const std::string file = cluster.WriteJobFile(cluster.TinyJob(40, 2));

  const auto run = cluster.Coat({"run", "-f", file});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  const auto list = cluster.Coat({"list", "-a", "-o", "json"});
  ASSERT_EQ(list.status, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("succeeded"));
  const auto metrics = cluster.Coat({"metrics", "tiny", "-o", "json"});
  ASSERT_EQ(metrics.status, 0) << metrics.err;
  EXPECT_THAT(metrics.out, HasSubstr("loss"));
  const auto logs = cluster.Coat({"logs", "tiny"});
  EXPECT_EQ(logs.status, 0) << logs.err;
  const auto checkpoints = cluster.Coat({"checkpoints", "ls", "tiny"});
  EXPECT_EQ(checkpoints.status, 0) << checkpoints.err;
  EXPECT_THAT(checkpoints.out, HasSubstr("40"));

  const std::string endless = cluster.WriteJobFile(cluster.TinyJob(100000, 2));
  const auto submit = cluster.Coat({"submit", "-f", endless, "-o", "name"});
  ASSERT_EQ(submit.status, 0) << submit.err;
  std::string id = submit.out.substr(0, submit.out.find('\n'));
  id = id.substr(id.rfind('/') + 1);
  ASSERT_TRUE(cluster.WaitForStep(id, 1));
  EXPECT_EQ(cluster.Coat({"cancel", id, "-y"}).status, 0);
  EXPECT_EQ(cluster.Coat({"wait", id}).status, 103);
  EXPECT_EQ(cluster.Coat({"wait", "no-such-job"}).status, 102);
  EXPECT_TRUE(testing::WaitUntil([&] { return cluster.RankProcesses().empty(); }));
}

}  // namespace
}  // namespace coat
