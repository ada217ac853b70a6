// The real coat-worker under real signals.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/worker/supervisor/worker_fixture.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::RANK_STATE_EXITED;
using coatrack::v1::RANK_STATE_RUNNING;
using Seen = testing::FakeCoordinator::Seen;

const RankId kRank{"job1", 1, 0};
const RankId kPeer{"job1", 1, 1};

class WorkerProgramTest : public testing::WorkerTest {
 protected:
  bool WaitForIncarnationAfter(const std::string& earlier) {
    return coordinator_.WaitFor([&](const Seen& seen) {
      return !seen.last.incarnation().empty() && seen.last.incarnation() != earlier;
    });
  }
};

TEST_F(WorkerProgramTest, SaysWhereItListens) {
  const auto worker = StartProgram();
  ASSERT_TRUE(testing::WaitUntil([&] { return std::filesystem::exists(State("ports.json")); }));
  EXPECT_NE(testing::ReadFile(State("ports.json")).find("\"metrics\": "), std::string::npos);
  ASSERT_TRUE(testing::WaitUntil([&] {
    return testing::ReadFile(dir_.file("worker.log")).find("coat-worker w1: health 127.0.0.1:") !=
           std::string::npos;
  }));
}

TEST_F(WorkerProgramTest, KilledUnderARunningJobTheNextOneAdopts) {
  auto worker = StartProgram();
  coordinator_.Want(Rank(kRank, {{"steps", "200"}}));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  const std::string earlier = coordinator_.seen().last.incarnation();
  worker->Signal(SIGKILL);
  ASSERT_TRUE(worker->Wait(std::chrono::seconds(10)).has_value());
  EXPECT_TRUE(RankIsAlive(Dir(kRank)));
  worker = StartProgram();
  ASSERT_TRUE(WaitForIncarnationAfter(earlier));
  ASSERT_TRUE(coordinator_.WaitForState(kRank, RANK_STATE_EXITED));
  ASSERT_TRUE(
      coordinator_.WaitFor([](const Seen& seen) { return seen.ranks.at(kRank).logs_delivered(); }));
  std::set<int64_t> steps;
  const Seen seen = coordinator_.seen();
  for (const auto& record : seen.records.at(kRank)) steps.insert(record.step());
  EXPECT_EQ(steps.size(), 200);
  EXPECT_EQ(seen.ranks.at(kRank).exit().reason(), coatrack::v1::REASON_COMPLETED);
}

TEST_F(WorkerProgramTest, SigtermDrains) {
  auto worker = StartProgram();
  coordinator_.Want(Rank(kRank));
  coordinator_.Want(Rank(kPeer));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  ASSERT_TRUE(WaitForStep(kPeer, 2));
  worker->Signal(SIGTERM);
  const auto status = worker->Wait(std::chrono::seconds(20));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0);
  EXPECT_TRUE(RankProcesses().empty());
  for (const RankId& id : {kRank, kPeer}) {
    const auto report = coordinator_.seen().ranks.at(id);
    EXPECT_EQ(report.exit().reason(), coatrack::v1::REASON_STOPPED);
    EXPECT_EQ(report.exit().signal(), 0);
  }
}

TEST_F(WorkerProgramTest, Sigusr2HandsOver) {
  auto worker = StartProgram();
  coordinator_.Want(Rank(kRank));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  const std::string earlier = coordinator_.seen().last.incarnation();
  worker->Signal(SIGUSR2);
  const auto status = worker->Wait(std::chrono::seconds(20));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0);
  EXPECT_TRUE(RankIsAlive(Dir(kRank)));
  worker = StartProgram();
  ASSERT_TRUE(WaitForIncarnationAfter(earlier));
  EXPECT_TRUE(coordinator_.WaitForState(kRank, RANK_STATE_RUNNING));
}

TEST_F(WorkerProgramTest, WakesAfterALongSleepAndKillsWhatIsNoLongerWanted) {
  const auto worker = StartProgram();
  coordinator_.Want(Rank(kRank));
  coordinator_.Want(Rank(kPeer));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  ASSERT_TRUE(WaitForStep(kPeer, 2));
  worker->Signal(SIGSTOP);
  coordinator_.Unwant(kRank);  // given up and started elsewhere meanwhile
  EXPECT_TRUE(RankIsAlive(Dir(kRank)));
  worker->Signal(SIGCONT);
  EXPECT_TRUE(coordinator_.WaitForState(kRank, RANK_STATE_EXITED));
  EXPECT_TRUE(RankIsAlive(Dir(kPeer)));
}

}  // namespace
}  // namespace coat
