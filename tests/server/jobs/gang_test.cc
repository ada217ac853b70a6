#include "server/jobs/gang.h"

#include <gtest/gtest.h>

#include "configs/base/error.h"
#include "server/jobs/reason.h"

namespace coat {
namespace {

using namespace coatrack::v1;

class GangTest : public ::testing::Test {
 protected:
  GangTest() {
    JobSpec spec;
    spec.set_name("job");
    spec.mutable_train()->set_steps(100);
    spec.set_max_restarts(1);
    job_ = NewJob("id", 1, spec, spec, now_);
  }

  void Place(int ranks = 2) {
    GangPlace place;
    for (int r = 0; r < ranks; ++r) {
      place.ranks.push_back({"w" + std::to_string(r), "cpu:0", 1});
    }
    PlaceGang(&job_, place, now_);
    job_.committed_attempt = job_.row.job().attempt();
  }
  void Run(int rank) {
    MarkRunning(&job_, rank, nullptr, now_);
    Advance(&job_, options_, now_);
  }
  void Exit(int rank, Reason reason, bool logs = true) {
    RankExit exit;
    exit.set_reason(reason);
    exit.set_message(ReasonName(reason));
    MarkGone(&job_, rank, exit, logs, options_, now_);
    Advance(&job_, options_, now_);
  }
  void Start(int ranks = 2) {
    Place(ranks);
    for (int r = 0; r < ranks; ++r) Run(r);
  }
  void Pass(int64_t ms) {
    now_.steady_ms += ms;
    Advance(&job_, options_, now_);
  }

  JobTimes now_{1000, 1'700'000'000'000};
  GangOptions options_;
  JobRecord job_;
};

TEST_F(GangTest, RunsAndSucceeds) {
  Place();
  EXPECT_EQ(job_.state(), JOB_STATE_STARTING);
  EXPECT_EQ(job_.row.job().attempt(), 1);
  Run(0);
  EXPECT_EQ(job_.state(), JOB_STATE_STARTING);
  Run(1);
  EXPECT_EQ(job_.state(), JOB_STATE_RUNNING);
  Exit(0, REASON_COMPLETED);
  EXPECT_EQ(job_.state(), JOB_STATE_RUNNING);
  Exit(1, REASON_COMPLETED);
  EXPECT_EQ(job_.state(), JOB_STATE_SUCCEEDED);
  for (size_t i = 0; i < job_.uncommitted.size(); ++i) {
    EXPECT_EQ(job_.uncommitted[i].sequence(), static_cast<int64_t>(i) + 1);
  }
}

TEST_F(GangTest, ALostRankRestartsTheWholeGang) {
  Start();
  Exit(1, REASON_KILLED);
  EXPECT_EQ(job_.state(), JOB_STATE_RECOVERING);
  EXPECT_FALSE(Listed(job_, 0)) << "the other rank must be killed";
  Exit(0, REASON_PEER_FAILED);
  EXPECT_EQ(job_.state(), JOB_STATE_PENDING);
  EXPECT_EQ(job_.row.job().restarts(), 1);
  EXPECT_EQ(job_.retry_at_ms, now_.steady_ms + 1000);
  EXPECT_EQ(job_.row.attempt().ranks_size(), 0);
}

TEST_F(GangTest, TheCauseIsNamedEvenWhenAPeerReportsFirst) {
  Start();
  Exit(0, REASON_PEER_FAILED);
  Exit(1, REASON_HOST_OOM);
  EXPECT_EQ(job_.row.job().reason(), REASON_HOST_OOM);
  EXPECT_NE(job_.row.job().message().find("rank 1 on w1"), std::string::npos);
}

TEST_F(GangTest, APeersFailureBesideALostWorkerIsInfrastructure) {
  Start();
  Exit(0, REASON_PEER_FAILED);
  AbandonWorker(&job_, "w1", options_, now_);
  Advance(&job_, options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_PENDING);
  EXPECT_EQ(job_.row.job().reason(), REASON_WORKER_LOST);
  EXPECT_EQ(job_.row.job().restarts(), 0);
}

TEST_F(GangTest, RestartsRunOut) {
  for (int attempt = 1; attempt <= 2; ++attempt) {
    Start();
    Exit(0, REASON_CRASHED);
    Exit(1, REASON_PEER_FAILED);
  }
  EXPECT_EQ(job_.state(), JOB_STATE_FAILED);
  EXPECT_EQ(job_.row.job().reason(), REASON_CRASHED);
}

TEST_F(GangTest, ProgressResetsTheBackOff) {
  job_.row.set_failures_in_row(5);
  Start();
  job_.row.mutable_job()->set_step(10);
  AbandonWorker(&job_, "w0", options_, now_);
  Exit(1, REASON_PEER_FAILED);
  EXPECT_EQ(job_.row.failures_in_row(), 1);
}

TEST_F(GangTest, CancelLetsRanksSaveThenKillsThem) {
  Start();
  AskStop(&job_, REASON_CANCELLED, "bye", STOP_MODE_CHECKPOINT, options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_STOPPING);
  EXPECT_TRUE(Listed(job_, 0));
  EXPECT_EQ(job_.row.attempt().stop(), STOP_MODE_CHECKPOINT);
  Pass(options_.grace_ms - 1);
  EXPECT_TRUE(Listed(job_, 0));
  Pass(1);
  EXPECT_FALSE(Listed(job_, 0));
  Exit(0, REASON_STOPPED);
  Exit(1, REASON_STOPPED);
  EXPECT_EQ(job_.state(), JOB_STATE_CANCELLED);
  EXPECT_EQ(job_.row.job().message(), "bye");
}

TEST_F(GangTest, CancelWorksInEveryState) {
  AskStop(&job_, REASON_CANCELLED, "", STOP_MODE_CHECKPOINT, options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_CANCELLED);

  JobSpec spec;
  job_ = NewJob("starting", 2, spec, spec, now_);
  Place();
  AskStop(&job_, REASON_CANCELLED, "", STOP_MODE_CHECKPOINT, options_, now_);
  EXPECT_EQ(job_.row.attempt().stop(), STOP_MODE_NOW) << "nothing to save yet";
  MarkGone(&job_, 0, std::nullopt, true, options_, now_);
  MarkGone(&job_, 1, std::nullopt, true, options_, now_);
  Advance(&job_, options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_CANCELLED);

  job_ = NewJob("recovering", 3, spec, spec, now_);
  Start();
  AbandonWorker(&job_, "w0", options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_RECOVERING);
  AskStop(&job_, REASON_CANCELLED, "", STOP_MODE_CHECKPOINT, options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_STOPPING);
  Exit(1, REASON_PEER_FAILED);
  EXPECT_EQ(job_.state(), JOB_STATE_CANCELLED);
  EXPECT_NE(job_.row.job().message().find("something may still run on w0"), std::string::npos);
}

TEST_F(GangTest, AKillHardensACancel) {
  Start();
  AskStop(&job_, REASON_CANCELLED, "", STOP_MODE_CHECKPOINT, options_, now_);
  AskStop(&job_, REASON_CANCELLED, "", STOP_MODE_NOW, options_, now_);
  EXPECT_FALSE(Listed(job_, 0));
  AskStop(&job_, REASON_CANCELLED, "", STOP_MODE_CHECKPOINT, options_, now_);
  EXPECT_EQ(job_.row.attempt().stop(), STOP_MODE_NOW);
}

TEST_F(GangTest, TheEndWaitsForTheTailOfTheLog) {
  Start(1);
  Exit(0, REASON_COMPLETED, /*logs=*/false);
  EXPECT_EQ(job_.state(), JOB_STATE_RUNNING);
  Pass(options_.log_tail_wait_ms - 1);
  EXPECT_EQ(job_.state(), JOB_STATE_RUNNING);
  MarkGone(&job_, 0, std::nullopt, /*logs_complete=*/true, options_, now_);
  Pass(0);
  EXPECT_EQ(job_.state(), JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job_.row.job().message(), "completed");
}

TEST_F(GangTest, ATailThatDoesNotComeIsNamed) {
  Start(1);
  Exit(0, REASON_COMPLETED, /*logs=*/false);
  Pass(options_.log_tail_wait_ms);
  EXPECT_EQ(job_.state(), JOB_STATE_SUCCEEDED);
  EXPECT_NE(job_.row.job().message().find("truncated"), std::string::npos);
}

TEST_F(GangTest, DrainSavesAndIsNotTheUsersFault) {
  Start();
  EndAttempt(&job_, REASON_STOPPED, "worker w0 drains", STOP_MODE_CHECKPOINT, options_, now_);
  EXPECT_EQ(job_.state(), JOB_STATE_RECOVERING);
  EXPECT_TRUE(Listed(job_, 1)) << "it saves, too";
  Exit(0, REASON_STOPPED);
  Exit(1, REASON_STOPPED);
  EXPECT_EQ(job_.state(), JOB_STATE_PENDING);
  EXPECT_EQ(job_.row.job().restarts(), 0);
}

TEST_F(GangTest, LaunchesWaitForTheCommit) {
  Place();
  job_.committed_attempt = 0;
  EXPECT_FALSE(Listed(job_, 0));
}

TEST_F(GangTest, ReportsOfAGoneRankChangeNothing) {
  Start();
  Exit(0, REASON_COMPLETED);
  const uint64_t version = job_.version;
  Run(0);
  Exit(0, REASON_KILLED);
  EXPECT_EQ(job_.version, version);
  EXPECT_EQ(job_.state(), JOB_STATE_RUNNING);
}

TEST_F(GangTest, AMoveThatTheTableLacksIsABug) {
  EXPECT_THROW(Move(&job_, Trigger::kSucceeded, REASON_COMPLETED, "", now_), Error);
}

}  // namespace
}  // namespace coat
