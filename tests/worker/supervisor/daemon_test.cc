// The daemon in this process, against a fake coordinator and ranks that are real processes.
#include "worker/supervisor/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/worker/supervisor/worker_fixture.h"
#include "worker/supervisor/session_kill.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::RANK_STATE_EXITED;
using coatrack::v1::RANK_STATE_LOST;
using coatrack::v1::RANK_STATE_RUNNING;
using testing::FakeCoordinator;
using Seen = FakeCoordinator::Seen;
using Labels = std::map<std::string, std::string>;

const RankId kRank{"job1", 1, 0};
const RankId kPeer{"job1", 1, 1};

class DaemonTest : public testing::WorkerTest {
 protected:
  void SetUp() override { StartDaemon(); }
  bool WaitForExit(const RankId& id, coatrack::v1::Reason reason) {
    return coordinator_.WaitFor([&](const Seen& seen) {
      const auto it = seen.ranks.find(id);
      return it != seen.ranks.end() && it->second.state() == RANK_STATE_EXITED &&
             it->second.exit().reason() == reason;
    });
  }
  bool WaitGone(const RankId& id) {
    return testing::WaitUntil([&] { return !std::filesystem::exists(Dir(id)); });
  }
};

TEST_F(DaemonTest, OffersItsDevicesAndRoots) {
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) { return seen.syncs > 0; }));
  const auto report = coordinator_.seen().last;
  EXPECT_EQ(report.worker(), "w1");
  EXPECT_EQ(report.incarnation().size(), 36);
  ASSERT_GE(report.devices_size(), 2);
  EXPECT_EQ(report.devices(1).id(), "cpu:1");
  EXPECT_GT(report.devices(1).total_bytes(), 0);
  ASSERT_EQ(report.roots_size(), 1);
  EXPECT_EQ(report.roots(0).uuid(), root_uuid_);
  EXPECT_FALSE(report.version().empty());
}

TEST_F(DaemonTest, RunsARankToItsEndAndCleansUpOnceAcknowledged) {
  coordinator_.SetAcknowledge(false);
  coordinator_.Want(Rank(kRank, {{"steps", "30"}, {"last_words", "no newline here"}}));
  ASSERT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_COMPLETED));
  // The last line has no newline; it arrives all the same, and before the end counts as delivered.
  ASSERT_TRUE(
      coordinator_.WaitFor([](const Seen& seen) { return seen.ranks.at(kRank).logs_delivered(); }));
  const Seen seen = coordinator_.seen();
  EXPECT_EQ(seen.logs.at(kRank).data, "no newline here");
  EXPECT_TRUE(seen.logs.at(kRank).final);
  ASSERT_EQ(seen.records.at(kRank).size(), 30);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(seen.records.at(kRank)[i].step(), i + 1);
  EXPECT_EQ(seen.ranks.at(kRank).step(), 30);
  EXPECT_TRUE(std::filesystem::exists(Dir(kRank)));
  coordinator_.SetAcknowledge(true);
  EXPECT_TRUE(WaitGone(kRank));
  // It is still listed, but it has had its one launch.
  EXPECT_TRUE(coordinator_.WaitApplied());
  EXPECT_FALSE(std::filesystem::exists(Dir(kRank)));
}

TEST_F(DaemonTest, ReportsProgressAndWhoHoldsADevice) {
  coordinator_.Want(Rank(kPeer));
  ASSERT_TRUE(WaitForStep(kPeer, 5));
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) {
    const auto it = seen.ranks.find(kPeer);
    return it != seen.ranks.end() && it->second.step() >= 1 &&
           it->second.collective_sequence() == 3 * static_cast<uint64_t>(it->second.step());
  }));
  const auto report = coordinator_.seen().last;
  EXPECT_EQ(report.devices(1).job_id(), "job1");
  EXPECT_EQ(report.devices(0).job_id(), "");
  EXPECT_EQ(report.ranks(0).device(), "cpu:1");
  EXPECT_EQ(report.ranks(0).phase(), coatrack::v1::PHASE_STEP);
  EXPECT_LT(report.ranks(0).progress_age_seconds(), 5);
}

TEST_F(DaemonTest, AsksForACheckpointThroughTheSocket) {
  coordinator_.Want(Rank(kRank));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  coordinator_.StopRank(kRank, coatrack::v1::STOP_MODE_CHECKPOINT, 20);
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_STOPPED));
  EXPECT_EQ(coordinator_.seen().ranks.at(kRank).exit().exit_status(), 0);
}

TEST_F(DaemonTest, KillsWhatDoesNotStopWithinItsGrace) {
  coordinator_.Want(Rank(kRank, {{"stubborn", "1"}}));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  coordinator_.StopRank(kRank, coatrack::v1::STOP_MODE_CHECKPOINT, 1);
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_STOPPED));
  const auto exit = coordinator_.seen().ranks.at(kRank).exit();
  EXPECT_EQ(exit.signal(), SIGKILL);
  EXPECT_THAT(exit.message(), ::testing::HasSubstr("grace"));
  EXPECT_TRUE(RankProcesses().empty());
}

TEST_F(DaemonTest, KillsAtOnceWhenToldSo) {
  coordinator_.Want(Rank(kRank, {{"stubborn", "1"}}));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  coordinator_.StopRank(kRank, coatrack::v1::STOP_MODE_NOW, 600);
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_STOPPED));
}

TEST_F(DaemonTest, AStoppedProcessDiesToo) {
  coordinator_.Want(Rank(kRank));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  ASSERT_TRUE(SignalRank(Dir(kRank), SIGSTOP).ok());
  coordinator_.StopRank(kRank, coatrack::v1::STOP_MODE_CHECKPOINT, 1);
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_STOPPED));
}

TEST_F(DaemonTest, KillsWhatIsNoLongerListed) {
  coordinator_.Want(Rank(kRank, {{"stubborn", "1"}}));
  coordinator_.Want(Rank(kPeer));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  ASSERT_TRUE(WaitForStep(kPeer, 2));
  coordinator_.Unwant(kRank);
  EXPECT_TRUE(coordinator_.WaitForState(kRank, RANK_STATE_EXITED));
  EXPECT_TRUE(RankIsAlive(Dir(kPeer)));
}

TEST_F(DaemonTest, TellsADeathByAnothersHandFromItsOwn) {
  coordinator_.Want(Rank(kRank, {{"kill_self", "5"}}));
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_KILLED));
  const auto exit = coordinator_.seen().ranks.at(kRank).exit();
  EXPECT_EQ(exit.signal(), SIGKILL);
  EXPECT_FALSE(exit.host_oom());
}

TEST_F(DaemonTest, ReportsALaunchThatFails) {
  coatrack::v1::DesiredRank rank = Rank(kRank);
  rank.set_root_uuid("00000000-0000-4000-8000-000000000000");
  coordinator_.Want(rank);
  ASSERT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_LAUNCH_FAILED));
  EXPECT_THAT(coordinator_.seen().ranks.at(kRank).exit().message(),
              ::testing::HasSubstr("root_uuid"));
}

TEST_F(DaemonTest, ReportsALaunchThatTheDiskRefuses) {
  // Where the attempt's folder should go, a file is: nothing can be written below it.
  std::filesystem::create_directories(State(kAttemptsDir));
  testing::WriteFile(State(std::string(kAttemptsDir) + "/job1"), "");
  coordinator_.Want(Rank(kRank));
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_LAUNCH_FAILED));
  coordinator_.Want(Rank({"job2", 1, 0}, {{"steps", "3"}}));
  EXPECT_TRUE(WaitForExit({"job2", 1, 0}, coatrack::v1::REASON_COMPLETED));
}

TEST_F(DaemonTest, SaysThatARankToBeStoppedWasNeverHere) {
  coatrack::v1::DesiredRank rank = Rank(kRank);
  rank.set_stop(coatrack::v1::STOP_MODE_NOW);
  coordinator_.Want(rank);
  EXPECT_TRUE(coordinator_.WaitForState(kRank, RANK_STATE_LOST));
  EXPECT_FALSE(std::filesystem::exists(Dir(kRank)));
}

TEST_F(DaemonTest, RefusesOrdersOfALowerEpoch) {
  coordinator_.Want(Rank(kRank));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  coordinator_.SetEpoch(5);
  ASSERT_TRUE(coordinator_.WaitApplied());
  coordinator_.SetEpoch(4);
  coordinator_.Unwant(kRank);
  const int syncs = coordinator_.seen().syncs;
  ASSERT_TRUE(coordinator_.WaitFor([&](const Seen& seen) { return seen.syncs > syncs + 2; }));
  EXPECT_TRUE(RankIsAlive(Dir(kRank)));
  EXPECT_EQ(coordinator_.seen().last.epoch(), 5);
  // Its own coordinator is back: the order counts.
  coordinator_.SetEpoch(6);
  EXPECT_TRUE(coordinator_.WaitForState(kRank, RANK_STATE_EXITED));
}

TEST_F(DaemonTest, ASilentCoordinatorKillsNothingAndHearsOfWhatEndedMeanwhile) {
  coordinator_.Want(Rank(kRank, {{"steps", "40"}}));
  coordinator_.Want(Rank(kPeer));
  ASSERT_TRUE(WaitForStep(kRank, 1));
  ASSERT_TRUE(WaitForStep(kPeer, 1));
  coordinator_.Stop();
  ASSERT_TRUE(testing::WaitUntil([&] { return !RankIsAlive(Dir(kRank)); }));
  EXPECT_TRUE(RankIsAlive(Dir(kPeer)));
  coordinator_.Start();
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_COMPLETED));
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) {
    const auto it = seen.records.find(kRank);
    return it != seen.records.end() && it->second.size() >= 40;
  }));
  EXPECT_TRUE(RankIsAlive(Dir(kPeer)));
}

TEST_F(DaemonTest, AdoptsWhatLivesAndReportsWhatEndedWhileNoDaemonWasThere) {
  const RankId lost{"job2", 1, 0};
  coordinator_.Want(Rank(kRank, {{"steps", "40"}}));
  coordinator_.Want(Rank(kPeer));
  ASSERT_TRUE(WaitForStep(kRank, 1));
  ASSERT_TRUE(WaitForStep(kPeer, 1));
  const std::string incarnation = coordinator_.seen().last.incarnation();
  StopDaemon();
  ASSERT_TRUE(testing::WaitUntil([&] { return !RankIsAlive(Dir(kRank)); }));
  EXPECT_TRUE(RankIsAlive(Dir(kPeer)));
  std::filesystem::create_directories(Dir(lost));
  coordinator_.Want(Rank(lost));
  StartDaemon();
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_COMPLETED));
  EXPECT_TRUE(coordinator_.WaitForState(lost, RANK_STATE_LOST));
  EXPECT_TRUE(coordinator_.WaitForState(kPeer, RANK_STATE_RUNNING));
  EXPECT_NE(coordinator_.seen().last.incarnation(), incarnation);
  EXPECT_EQ(coordinator_.seen().ranks.at(kPeer).device(), "cpu:1");
  // An adopted rank obeys: its socket finds the new daemon, or SIGTERM finds it.
  coordinator_.StopRank(kPeer, coatrack::v1::STOP_MODE_CHECKPOINT, 20);
  EXPECT_TRUE(WaitForExit(kPeer, coatrack::v1::REASON_STOPPED));
  EXPECT_EQ(coordinator_.seen().ranks.at(kPeer).exit().signal(), 0);
}

TEST_F(DaemonTest, CarriesRendezvousValuesBetweenRanks) {
  coordinator_.Want(Rank(kRank, {{"put", "addr/0=ten"}, {"get", "addr/1"}, {"steps", "1"}}));
  ASSERT_TRUE(coordinator_.WaitFor(
      [](const Seen& seen) { return seen.rendezvous.count("job1/1/addr/0") != 0; }));
  coordinator_.Want(Rank(kPeer, {{"put", "addr/1=eleven"}, {"get", "addr/0"}, {"steps", "1"}}));
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_COMPLETED));
  EXPECT_TRUE(WaitForExit(kPeer, coatrack::v1::REASON_COMPLETED));
  ASSERT_TRUE(coordinator_.WaitFor(
      [](const Seen& seen) { return seen.logs.count(kRank) != 0 && seen.logs.count(kPeer) != 0; }));
  EXPECT_EQ(coordinator_.seen().logs.at(kRank).data, "value addr/1=eleven\n");
  EXPECT_EQ(coordinator_.seen().logs.at(kPeer).data, "value addr/0=ten\n");
}

TEST_F(DaemonTest, PutsAgainAfterTheCoordinatorsRestart) {
  coordinator_.Want(Rank(kRank, {{"put", "addr/0=ten"}, {"get", "addr/1"}, {"steps", "1"}}));
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) { return seen.puts == 1; }));
  coordinator_.Restart();
  EXPECT_TRUE(coordinator_.WaitFor([](const Seen& seen) {
    const auto it = seen.rendezvous.find("job1/1/addr/0");
    return it != seen.rendezvous.end() && it->second == "ten";
  }));
  EXPECT_TRUE(RankIsAlive(Dir(kRank)));
}

TEST_F(DaemonTest, OutputTravelsOnlyWhileSomebodyFollows) {
  coordinator_.Want(Rank(kRank, {{"output", "1000000"}}));
  ASSERT_TRUE(WaitForStep(kRank, 5));
  EXPECT_EQ(coordinator_.seen().logs.count(kRank), 0);
  coordinator_.Follow(kRank, 640);
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) {
    const auto it = seen.logs.find(kRank);
    return it != seen.logs.end() && it->second.end == 1000000;
  }));
  const auto log = coordinator_.seen().logs.at(kRank);
  EXPECT_EQ(log.data.size(), 1000000 - 640);
  EXPECT_LE(log.largest_push, 256 * 1024);
}

TEST_F(DaemonTest, TheTailOfALargeOutputIsBoundedAndSaysWhatIsMissing) {
  coordinator_.Want(
      Rank(kRank, {{"output", "3000000"}, {"steps", "1"}, {"last_words", "the end"}}));
  ASSERT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_COMPLETED));
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) {
    const auto it = seen.logs.find(kRank);
    return it != seen.logs.end() && it->second.final;
  }));
  const auto log = coordinator_.seen().logs.at(kRank);
  EXPECT_EQ(log.data.size(), static_cast<size_t>(kTailBytes));
  EXPECT_TRUE(log.truncated);
  EXPECT_EQ(log.data.substr(log.data.size() - 7), "the end");
}

TEST_F(DaemonTest, PushesRecordsOfRankZeroInFewCalls) {
  coordinator_.Want(Rank(kRank, {{"steps", "500"}, {"step_ms", "1"}}));
  coordinator_.Want(Rank(kPeer, {{"steps", "5"}}));
  ASSERT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_COMPLETED));
  ASSERT_TRUE(WaitForExit(kPeer, coatrack::v1::REASON_COMPLETED));
  ASSERT_TRUE(
      coordinator_.WaitFor([](const Seen& seen) { return seen.ranks.at(kRank).logs_delivered(); }));
  const Seen seen = coordinator_.seen();
  EXPECT_EQ(seen.records.at(kRank).size(), 500);
  EXPECT_LT(seen.record_pushes.at(kRank), 50);
  EXPECT_EQ(seen.records.count(kPeer), 0);
}

TEST_F(DaemonTest, ServesSeriesOfLivingRanksOnly) {
  const std::string url =
      "http://127.0.0.1:" + std::to_string(daemon_->metrics_port()) + "/metrics";
  const auto scrape = [&] { return testing::RunProgram({"curl", "-sf", url}).out; };
  coordinator_.Want(Rank(kRank));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  ASSERT_TRUE(testing::WaitUntil([&] {
    return scrape().find("coat_train_step_seconds{job_id=\"job1\"") != std::string::npos;
  }));
  EXPECT_THAT(scrape(), ::testing::HasSubstr("coat_memory_bytes{job_id=\"job1\",job_name=\"tiny\","
                                             "rank=\"0\",device=\"cpu:0\",kind=\"weights\"} 4096"));
  coordinator_.Unwant(kRank);
  EXPECT_TRUE(testing::WaitUntil([&] { return scrape().find("job1") == std::string::npos; }));
}

TEST_F(DaemonTest, DrainAsksRanksToStopAndRefusesNewOnes) {
  coordinator_.Want(Rank(kRank));
  ASSERT_TRUE(WaitForStep(kRank, 2));
  daemon_->BeginDrain();
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) { return seen.last.draining(); }));
  EXPECT_TRUE(WaitForExit(kRank, coatrack::v1::REASON_STOPPED));
  coordinator_.Want(Rank(kPeer));
  EXPECT_TRUE(WaitForExit(kPeer, coatrack::v1::REASON_LAUNCH_FAILED));
  EXPECT_TRUE(testing::WaitUntil([&] { return daemon_->Drained(); }));
}

TEST_F(DaemonTest, ASecondDaemonOnTheSameStateIsRefused) {
  const auto second = Daemon::Start(Config());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace coat
