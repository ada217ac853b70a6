#include "server/workers/reconcile.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

using namespace coatrack::v1;

RankReport* Report(SyncRequest* request, const std::string& job, int attempt, RankState state) {
  RankReport* report = request->add_ranks();
  report->mutable_key()->set_job_id(job);
  report->mutable_key()->set_attempt(attempt);
  report->set_state(state);
  return report;
}

TEST(ReconcileTest, AReportOfAnOldAttemptChangesNothing) {
  SyncRequest request;
  Report(&request, "job", 1, RANK_STATE_EXITED);
  const Reconciled result = Reconcile({{"job", 2, 0, true, 0}}, request);
  ASSERT_EQ(result.refused.size(), 1u);
  EXPECT_EQ(result.refused[0].attempt(), 1);
  // Attempt 2 ran and is not mentioned: that is a loss of its own.
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].kind, FindingKind::kLost);
}

TEST(ReconcileTest, ARankThatHasNotStartedIsNotLost) {
  EXPECT_TRUE(Reconcile({{"job", 1, 0, false, 0}}, SyncRequest()).findings.empty());
}

TEST(ReconcileTest, ARestartedWorkerThatForgotItsRankHasLostIt) {
  const Reconciled result = Reconcile({{"job", 1, 0, true, 0}}, SyncRequest());
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].kind, FindingKind::kLost);
}

TEST(ReconcileTest, AnUnlistedRankIsGoneOnlyOnceThatStateWasApplied) {
  SyncRequest request;
  request.set_applied_revision(6);
  EXPECT_TRUE(Reconcile({{"job", 1, 0, true, 7}}, request).findings.empty());
  request.set_applied_revision(7);
  const Reconciled result = Reconcile({{"job", 1, 0, true, 7}}, request);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].kind, FindingKind::kGone);
}

TEST(ReconcileTest, WhatRunsUnlistedIsUndesired) {
  SyncRequest request;
  Report(&request, "job", 1, RANK_STATE_RUNNING);
  EXPECT_FALSE(Reconcile({{"job", 1, 0, false, 0}}, request).undesired);
  EXPECT_TRUE(Reconcile({{"job", 1, 0, true, 3}}, request).undesired);
  EXPECT_TRUE(Reconcile({}, request).undesired);
  EXPECT_TRUE(Reconcile({}, request).refused.empty()) << "it still runs";
}

TEST(ReconcileTest, ExitsAreFound) {
  SyncRequest request;
  Report(&request, "job", 1, RANK_STATE_EXITED)->mutable_exit()->set_reason(REASON_COMPLETED);
  const Reconciled result = Reconcile({{"job", 1, 0, true, 0}}, request);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].kind, FindingKind::kExited);
  EXPECT_EQ(result.findings[0].report->exit().reason(), REASON_COMPLETED);
}

}  // namespace
}  // namespace coat
