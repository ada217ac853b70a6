#include "worker/supervisor/reconcile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const RankId kA{"a", 1, 0};
const RankId kB{"b", 1, 0};

coatrack::v1::DesiredRank* Add(coatrack::v1::SyncResponse* response, const RankId& id) {
  auto* rank = response->add_ranks();
  SetRankKey(id, rank->mutable_key());
  return rank;
}

TEST(Reconcile, LaunchesWhatIsListedAndMissing) {
  coatrack::v1::SyncResponse desired;
  Add(&desired, kA);
  const RankActions actions = Reconcile(desired, {});
  ASSERT_EQ(actions.launch.size(), 1);
  EXPECT_EQ(ToRankId(actions.launch[0].key()), kA);
  EXPECT_THAT(actions.kill, IsEmpty());
}

TEST(Reconcile, NeverLaunchesAnEndedOrForgottenRankAgain) {
  coatrack::v1::SyncResponse desired;
  Add(&desired, kA);
  Add(&desired, kB);
  ActualRanks actual;
  actual.ended = {kA};
  actual.forgotten = {kB};
  const RankActions actions = Reconcile(desired, actual);
  EXPECT_THAT(actions.launch, IsEmpty());
  EXPECT_THAT(actions.report_lost, IsEmpty());
}

TEST(Reconcile, ANewAttemptIsAnotherRank) {
  coatrack::v1::SyncResponse desired;
  Add(&desired, {"a", 2, 0});
  ActualRanks actual;
  actual.alive = {kA};
  const RankActions actions = Reconcile(desired, actual);
  EXPECT_THAT(actions.kill, ElementsAre(kA));
  ASSERT_EQ(actions.launch.size(), 1);
}

TEST(Reconcile, KillsWhatIsAliveAndNotListed) {
  ActualRanks actual;
  actual.alive = {kA, kB};
  coatrack::v1::SyncResponse desired;
  Add(&desired, kB);
  EXPECT_THAT(Reconcile(desired, actual).kill, ElementsAre(kA));
}

TEST(Reconcile, StopsOnlyWhatIsAliveAndReportsLostWhatWasNeverHere) {
  coatrack::v1::SyncResponse desired;
  Add(&desired, kA)->set_stop(coatrack::v1::STOP_MODE_CHECKPOINT);
  Add(&desired, kB)->set_stop(coatrack::v1::STOP_MODE_NOW);
  ActualRanks actual;
  actual.alive = {kA};
  const RankActions actions = Reconcile(desired, actual);
  ASSERT_EQ(actions.stop.size(), 1);
  EXPECT_EQ(ToRankId(actions.stop[0].key()), kA);
  EXPECT_THAT(actions.report_lost, ElementsAre(kB));
  EXPECT_THAT(actions.launch, IsEmpty());
}

TEST(Reconcile, ForgetsOnlyWhatEndedAndIsAcknowledged) {
  coatrack::v1::SyncResponse desired;
  Add(&desired, kB);
  SetRankKey(kA, desired.add_acknowledged());
  SetRankKey(kB, desired.add_acknowledged());
  ActualRanks actual;
  actual.ended = {kA};
  actual.alive = {kB};
  const RankActions actions = Reconcile(desired, actual);
  EXPECT_THAT(actions.forget, ElementsAre(kA));
  EXPECT_THAT(actions.kill, IsEmpty());
}

TEST(Reconcile, TakesARankListedTwiceOnce) {
  coatrack::v1::SyncResponse desired;
  Add(&desired, kA);
  Add(&desired, kA);
  EXPECT_EQ(Reconcile(desired, {}).launch.size(), 1);
}

}  // namespace
}  // namespace coat
