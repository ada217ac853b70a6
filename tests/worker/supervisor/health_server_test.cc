#include "worker/supervisor/health_server.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/grpc_health.h"

namespace coat {
namespace {

using testing::HealthStatus;

TEST(HealthServer, SaysAliveAndReadyApart) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status().message();
  const int port = server.value()->port();
  EXPECT_EQ(HealthStatus(port, ""), 1);
  EXPECT_EQ(HealthStatus(port, kWorkerReadiness), 2);
  server.value()->SetReady(true);
  EXPECT_EQ(HealthStatus(port, kWorkerReadiness), 1);
  EXPECT_EQ(HealthStatus(port, "no.such.Service"), -1);
}

TEST(HealthServer, NamesAnAddressThatIsTaken) {
  const auto first = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string(first.value()->port());
  const auto second = HealthServer::Start(address);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(address), std::string::npos);
}

}  // namespace
}  // namespace coat
