// What may die under a running job, and that the job's curve does not show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>

#include "tests/e2e/cluster.h"
#include "tests/e2e/curve.h"
#include "tests/support/tcp_proxy.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::JOB_STATE_CANCELLED;
using coatrack::v1::JOB_STATE_FAILED;
using coatrack::v1::JOB_STATE_SUCCEEDED;
using testing::Cluster;

constexpr int kSteps = 240;

class Survival : public ::testing::Test {
 protected:
  explicit Survival(testing::Limits limits = testing::Limits()) : cluster_(limits) {}
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.StartServer()); }

  void StartTwoHosts() {  // a gang of two needs both
    cluster_.StartWorker("w1", 1);
    cluster_.StartWorker("w2", 1);
  }
  std::string SubmitAndRun(const coatrack::v1::JobSpec& spec) {
    const std::string id = cluster_.Submit(spec);
    EXPECT_TRUE(cluster_.WaitForStep(id, kSteps / 8));
    return id;
  }
  // The job succeeds in its `attempt`, with the curve of the same job run without a service.
  void ExpectUndisturbed(const coatrack::v1::JobSpec& spec, const std::string& id, int attempt) {
    ASSERT_TRUE(cluster_.WaitForState(id, JOB_STATE_SUCCEEDED));
    EXPECT_EQ(cluster_.Get(id).attempt(), attempt);
    EXPECT_TRUE(testing::WaitUntil([&] { return cluster_.RankProcesses().empty(); }));
    const testing::Curve expected = testing::RunAlone(spec, cluster_.WriteJobFile(spec),
                                                      cluster_.data_root(), alone_.file("run"));
    EXPECT_EQ(expected.loss.size(), static_cast<size_t>(kSteps));
    EXPECT_FALSE(expected.weights_hash.empty());
    EXPECT_EQ(testing::Difference(expected, testing::ToCurve(cluster_.Records(id))), "");
  }
  pid_t RankPid(const std::string& id, int attempt, int rank) const {
    const auto pids = ReadRankPids(cluster_.RankDirOf(id, attempt, rank));
    EXPECT_TRUE(pids.ok()) << pids.status().message();
    return pids.ok() ? pids->rank : -1;
  }

  testing::TempDir alone_;
  Cluster cluster_;
};

TEST_F(Survival, ATrainerThatIsKilled) {
  StartTwoHosts();
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  ASSERT_EQ(kill(RankPid(id, 1, 1), SIGKILL), 0);
  ExpectUndisturbed(spec, id, 2);
  EXPECT_EQ(cluster_.Get(id).restarts(), 1);
}

TEST_F(Survival, ADaemonThatIsKilledAndStartedAgain) {
  StartTwoHosts();
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  cluster_.worker("w1")->Signal(SIGKILL);
  cluster_.worker("w1")->Wait(std::chrono::seconds(5));
  cluster_.StartWorker("w1", 1);
  ExpectUndisturbed(spec, id, 1);
}

TEST_F(Survival, ACoordinatorThatIsKilledAndStartedAgain) {
  StartTwoHosts();
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  cluster_.server()->Signal(SIGKILL);
  cluster_.server()->Wait(std::chrono::seconds(5));
  cluster_.StartServer();
  ExpectUndisturbed(spec, id, 1);
}

TEST_F(Survival, ARankThatEndsWhileTheCoordinatorIsDown) {
  StartTwoHosts();
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  cluster_.server()->Signal(SIGKILL);
  cluster_.server()->Wait(std::chrono::seconds(5));
  ASSERT_TRUE(testing::WaitUntil([&] { return cluster_.RankProcesses().empty(); },
                                 std::chrono::seconds(240)));
  cluster_.StartServer();
  ExpectUndisturbed(spec, id, 1);
}

TEST_F(Survival, AWorkerThatDrains) {
  cluster_.StartWorker("w1", 2);
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  cluster_.worker("w1")->Signal(SIGTERM);
  cluster_.StartWorker("w2", 2);
  const auto status = cluster_.worker("w1")->Wait(std::chrono::seconds(60));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0);
  ExpectUndisturbed(spec, id, 2);
  EXPECT_EQ(cluster_.Get(id).restarts(), 0);  // no fault of the job
}

class Freeze : public Survival {
 protected:
  Freeze() : Survival(testing::Limits{.lease_s = 3, .lost_after_s = 3}) {}
};

TEST_F(Freeze, AHostThatSleepsBeyondItsLease) {
  cluster_.StartWorker("w1", 2);
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  cluster_.StartWorker("w2", 2);
  const std::vector<pid_t> old = cluster_.RankProcesses();
  cluster_.worker("w1")->Signal(SIGSTOP);
  for (const pid_t pid : old) kill(pid, SIGSTOP);
  // The gang is given up and started on the other worker.
  ASSERT_TRUE(cluster_.WaitFor(id, [](const auto& job) {
    return job.attempt() == 2 && job.state() == coatrack::v1::JOB_STATE_RUNNING;
  }));
  for (const pid_t pid : old) kill(pid, SIGCONT);
  cluster_.worker("w1")->Signal(SIGCONT);
  EXPECT_TRUE(testing::WaitUntil([&] {
    return !RankIsAlive(RankDir(cluster_.StateDir("w1"), id, 1, 0)) &&
           !RankIsAlive(RankDir(cluster_.StateDir("w1"), id, 1, 1));
  }));
  ExpectUndisturbed(spec, id, 2);
}

class Hang : public Survival {
 protected:
  Hang() : Survival(testing::Limits{.stall_floor_s = 10, .load_limit_s = 30}) {}
};

TEST_F(Hang, ARankThatStopsIsNamedAndItsGangStartedAgain) {
  StartTwoHosts();
  const auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  ASSERT_EQ(kill(RankPid(id, 1, 1), SIGSTOP), 0);
  ExpectUndisturbed(spec, id, 2);
  EXPECT_EQ(cluster_.Get(id).restarts(), 1);
  const testing::Finished described = cluster_.Coat({"describe", id});
  EXPECT_THAT(described.out, ::testing::HasSubstr("rank 1 on w"));
  EXPECT_THAT(described.out, ::testing::HasSubstr("holds the gang up"));
}

class NetworkCut : public Survival {
 protected:
  NetworkCut() : Survival(testing::Limits{.lease_s = 3, .lost_after_s = 120}) {}
};

// No FIN tells anybody: the coordinator's lease and the worker's keepalive must.
TEST_F(NetworkCut, WithoutFinIsNoticedOnBothSidesAndSurvived) {
  testing::TcpProxy network(cluster_.port());
  cluster_.StartWorker("w1", 2, network.address());
  auto spec = cluster_.TinyJob(kSteps, 2);
  const std::string id = SubmitAndRun(spec);
  network.Cut();
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return cluster_.WorkerState("w1") == coatrack::v1::WORKER_STATE_UNREACHABLE; }));
  network.Heal();  // for new connections; the old one stays dead
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return cluster_.WorkerState("w1") == coatrack::v1::WORKER_STATE_READY; },
      std::chrono::seconds(25)))
      << cluster_.Log("w1");
  EXPECT_NE(cluster_.Log("w1").find("no answer from the coordinator"), std::string::npos);
  ExpectUndisturbed(spec, id, 1);
}

TEST_F(Survival, EveryEndHasItsOwnReason) {
  cluster_.StartWorker("w1", 1);
  auto spec = cluster_.TinyJob(100000, 1);
  spec.set_max_restarts(0);
  const std::string killed = SubmitAndRun(spec);
  ASSERT_EQ(kill(RankPid(killed, 1, 0), SIGKILL), 0);
  ASSERT_TRUE(cluster_.WaitForState(killed, JOB_STATE_FAILED));
  EXPECT_EQ(cluster_.Get(killed).reason(), coatrack::v1::REASON_KILLED);

  // The kernel's out-of-memory killer, as the rank's parent would have written it.
  const std::string starved = SubmitAndRun(spec);
  cluster_.worker("w1")->Signal(SIGKILL);
  cluster_.worker("w1")->Wait(std::chrono::seconds(5));
  const std::string dir = cluster_.RankDirOf(starved, 1, 0);
  const auto pids = ReadRankPids(dir);
  ASSERT_TRUE(pids.ok());
  ASSERT_EQ(kill(pids->parent, SIGKILL), 0);  // its child dies with it
  ASSERT_TRUE(testing::WaitUntil([&] { return cluster_.RankProcesses().empty(); }));
  coatrack::v1::RankExit exit;
  exit.set_exit_status(-1);
  exit.set_signal(SIGKILL);
  exit.set_host_oom(true);
  exit.set_reason(coatrack::v1::REASON_HOST_OOM);
  ASSERT_TRUE(WriteExit(dir, exit).ok());
  cluster_.StartWorker("w1", 1);
  ASSERT_TRUE(cluster_.WaitForState(starved, JOB_STATE_FAILED));
  EXPECT_EQ(cluster_.Get(starved).reason(), coatrack::v1::REASON_HOST_OOM);

  spec.mutable_data()->set_text(0, "no-such-file.txt");
  const std::string wrong = cluster_.Submit(spec);
  ASSERT_TRUE(cluster_.WaitForState(wrong, JOB_STATE_FAILED));
  EXPECT_EQ(cluster_.Get(wrong).reason(), coatrack::v1::REASON_USER_ERROR);
  EXPECT_NE(cluster_.Get(wrong).message().find("no-such-file.txt"), std::string::npos);
}

TEST_F(Survival, CancelAtRandomInstantsLeavesNoProcess) {
  StartTwoHosts();
  std::mt19937 random(20240607);
  for (int round = 0; round < 8; ++round) {
    const std::string id = cluster_.Submit(cluster_.TinyJob(100000, 2));
    const int wait_ms = std::uniform_int_distribution<int>(0, 1500)(random);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
    testing::WaitUntil([&] { return std::chrono::steady_clock::now() >= until; });
    cluster_.Cancel(id);
    ASSERT_TRUE(cluster_.WaitForState(id, JOB_STATE_CANCELLED)) << "after " << wait_ms << " ms";
    EXPECT_TRUE(testing::WaitUntil([&] { return cluster_.RankProcesses().empty(); }));
  }
}

}  // namespace
}  // namespace coat
