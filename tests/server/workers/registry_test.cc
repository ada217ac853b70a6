#include "server/workers/registry.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

using namespace coatrack::v1;

SyncRequest From(const std::string& worker, const std::string& incarnation = "one") {
  SyncRequest request;
  request.set_worker(worker);
  request.set_incarnation(incarnation);
  Device* device = request.add_devices();
  device->set_id("cpu:0");
  device->set_kind(DEVICE_KIND_CPU);
  return request;
}

class RegistryTest : public ::testing::Test {
 protected:
  void Hear(const SyncRequest& request, int64_t now_ms, bool undesired = false) {
    const Result<Registry::Heard> heard = registry_.Hear(request, now_ms);
    ASSERT_TRUE(heard.ok()) << heard.status().message();
    registry_.Settle(heard->worker, undesired);
  }
  WorkerState State(const std::string& name) { return registry_.Find(name)->state; }

  LeaseOptions options_;
  Registry registry_{options_};
};

TEST_F(RegistryTest, SilenceIsUnreachableThenLost) {
  Hear(From("w"), 0);
  EXPECT_EQ(State("w"), WORKER_STATE_READY);
  EXPECT_TRUE(registry_.Expire(options_.lease_ms).empty());
  auto events = registry_.Expire(options_.lease_ms + 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_FALSE(events[0].lost);
  EXPECT_EQ(State("w"), WORKER_STATE_UNREACHABLE);
  EXPECT_TRUE(registry_.Expire(options_.lease_ms + options_.lost_after_ms).empty());
  events = registry_.Expire(options_.lease_ms + options_.lost_after_ms + 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].lost);
  EXPECT_TRUE(registry_.Expire(options_.lease_ms + options_.lost_after_ms + 2).empty());
}

TEST_F(RegistryTest, ADeviceIsBusyUntilTheWorkerCallsItClean) {
  SyncRequest request = From("w");
  request.mutable_devices(0)->set_job_id("ended");  // its ranks are gone, a process is not
  Hear(request, 0);
  EXPECT_EQ(registry_.Find("w")->busy_devices, std::set<std::string>{"cpu:0"});
  Hear(From("w"), 1);
  EXPECT_TRUE(registry_.Find("w")->busy_devices.empty());
}

TEST_F(RegistryTest, WhoComesBackMustBeCleanBeforeItIsOfferedWork) {
  Hear(From("w"), 0);
  registry_.Expire(options_.lease_ms + 1);
  Hear(From("w"), 20'000, /*undesired=*/true);
  EXPECT_EQ(State("w"), WORKER_STATE_CLEANING);
  Hear(From("w"), 21'000, /*undesired=*/true);
  EXPECT_EQ(State("w"), WORKER_STATE_CLEANING);
  Hear(From("w"), 22'000);
  EXPECT_EQ(State("w"), WORKER_STATE_READY);
}

TEST_F(RegistryTest, AfterARestartEveryoneHasAFullLease) {
  registry_.Expect("w", 1'000'000);
  EXPECT_TRUE(registry_.Expire(1'000'000 + options_.lease_ms).empty());
  EXPECT_EQ(registry_.Expire(1'000'001 + options_.lease_ms).size(), 1u);
}

TEST_F(RegistryTest, ARetiredIncarnationIsRefused) {
  Hear(From("w", "one"), 0);
  Hear(From("w", "two"), 1);
  EXPECT_EQ(registry_.Hear(From("w", "one"), 2).status().code(), Code::kAborted);
  EXPECT_EQ(registry_.Find("w")->incarnation, "two");
}

TEST_F(RegistryTest, LaunchesThatFailInARowDrainTheWorker) {
  Hear(From("w"), 0);
  registry_.LaunchFailed("w");
  registry_.LaunchFailed("w");
  registry_.LaunchSucceeded("w");
  registry_.LaunchFailed("w");
  registry_.LaunchFailed("w");
  EXPECT_EQ(State("w"), WORKER_STATE_READY);
  registry_.LaunchFailed("w");
  EXPECT_EQ(State("w"), WORKER_STATE_DRAINED);
  EXPECT_NE(registry_.Find("w")->message.find("3 launches in a row failed"), std::string::npos);
  Hear(From("w"), 1);
  EXPECT_EQ(State("w"), WORKER_STATE_DRAINED);
  Hear(From("w", "restarted"), 2);
  EXPECT_EQ(State("w"), WORKER_STATE_READY);
}

TEST_F(RegistryTest, ADrainingWorkerIsDrainedWhenEmpty) {
  Hear(From("w"), 0);
  registry_.Find("w")->jobs.insert("job");
  SyncRequest request = From("w");
  request.set_draining(true);
  request.set_drain_reason("maintenance");
  Hear(request, 1);
  EXPECT_EQ(State("w"), WORKER_STATE_DRAINING);
  EXPECT_EQ(registry_.Find("w")->message, "maintenance");
  registry_.Find("w")->jobs.clear();
  Hear(request, 2);
  EXPECT_EQ(State("w"), WORKER_STATE_DRAINED);
}

TEST_F(RegistryTest, BadRequestsAreNamed) {
  EXPECT_EQ(registry_.Hear(From(""), 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(registry_.Hear(From("w", ""), 0).status().code(), Code::kInvalidArgument);
  SyncRequest twice = From("w");
  *twice.add_devices() = twice.devices(0);
  EXPECT_EQ(registry_.Hear(twice, 0).status().code(), Code::kInvalidArgument);
  LeaseOptions small;
  small.max_workers = 1;
  Registry registry(small);
  EXPECT_TRUE(registry.Hear(From("a"), 0).ok());
  EXPECT_EQ(registry.Hear(From("b"), 0).status().code(), Code::kResourceExhausted);
}

TEST_F(RegistryTest, ALongLostWorkerIsForgotten) {
  Hear(From("w"), 0);
  registry_.Expire(options_.lease_ms + 1);
  registry_.Expire(options_.lease_ms + options_.lost_after_ms + 1);
  registry_.Expire(options_.forget_after_ms + 1);
  EXPECT_EQ(registry_.Find("w"), nullptr);
}

}  // namespace
}  // namespace coat
