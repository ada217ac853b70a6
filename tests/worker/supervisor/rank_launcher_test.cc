#include "worker/supervisor/rank_launcher.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

LaunchContext Context() {
  LaunchContext context;
  context.state_dir = "/state";
  context.data_root = "/data";
  context.advertise_address = "127.0.0.1";
  context.socket_path = "/state/daemon.sock";
  context.roots = {{"default", "/root", "uuid-1"}};
  return context;
}

coatrack::v1::DesiredRank Desired() {
  coatrack::v1::DesiredRank desired;
  desired.mutable_key()->set_job_id("j1");
  desired.mutable_key()->set_attempt(2);
  desired.mutable_key()->set_rank(1);
  desired.set_world_size(4);
  desired.set_device("cpu:3");
  desired.set_root_uuid("uuid-1");
  desired.set_resume("step-100.attempt-1");
  return desired;
}

TEST(MakeLaunch, NamesEveryPathBelowTheRoot) {
  coatrack::v1::DesiredRank desired = Desired();
  desired.set_init_job("j0");
  desired.set_init_checkpoint("step-7.attempt-1");
  const auto launch = MakeLaunch(Context(), desired);
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_EQ(launch->checkpoint_dir(), "/root/j1");
  EXPECT_EQ(launch->resume_dir(), "/root/j1/step-100.attempt-1");
  EXPECT_EQ(launch->init_dir(), "/root/j0/step-7.attempt-1");
  EXPECT_EQ(launch->device(), "cpu");
  EXPECT_EQ(launch->world_size(), 4);
  EXPECT_EQ(launch->socket_path(), "/state/daemon.sock");
  EXPECT_FALSE(launch->has_data_manifest());
}

TEST(MakeLaunch, AGpuIsNamedByItsUuid) {
  coatrack::v1::DesiredRank desired = Desired();
  desired.set_device("GPU-1a");
  EXPECT_EQ(MakeLaunch(Context(), desired)->device(), "cuda:GPU-1a");
}

TEST(MakeLaunch, NothingEscapesItsFolder) {
  for (const char* name : {"..", ".", "a/b", "/etc"}) {
    coatrack::v1::DesiredRank desired = Desired();
    desired.set_resume(name);
    EXPECT_EQ(MakeLaunch(Context(), desired).status().code(), Code::kInvalidArgument) << name;
    desired = Desired();
    desired.mutable_key()->set_job_id(name);
    EXPECT_EQ(MakeLaunch(Context(), desired).status().code(), Code::kInvalidArgument) << name;
    desired = Desired();
    desired.set_init_checkpoint(name);
    EXPECT_EQ(MakeLaunch(Context(), desired).status().code(), Code::kInvalidArgument) << name;
  }
}

TEST(MakeLaunch, RefusesARootThisWorkerDoesNotSee) {
  coatrack::v1::DesiredRank desired = Desired();
  desired.set_root_uuid("uuid-2");
  const auto launch = MakeLaunch(Context(), desired);
  ASSERT_FALSE(launch.ok());
  EXPECT_EQ(launch.status().code(), Code::kNotFound);
  EXPECT_NE(launch.status().message().find("uuid-2"), std::string::npos);
}

}  // namespace
}  // namespace coat
