#include "worker/supervisor/health_server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>

namespace coat {
namespace {

// grpc.health.v1.Health/Check by hand: field 1 of the request is the service's name, field 1 of the
// response the state (1: serving, 2: not serving). -1: the call failed.
int Check(int port, const std::string& service) {
  grpc::GenericStub stub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  const std::string text =
      service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  grpc::Status status;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&](const grpc::Status& result) {
                   const std::lock_guard lock(mutex);
                   status = result;
                   done = true;
                   done_changed.notify_all();
                 });
  std::unique_lock lock(mutex);
  done_changed.wait(lock, [&] { return done; });
  grpc::Slice answer;
  if (!status.ok() || !response.DumpToSingleSlice(&answer).ok() || answer.size() != 2) return -1;
  return answer.begin()[1];
}

TEST(HealthServer, SaysAliveAndReadyApart) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status().message();
  const int port = server.value()->port();
  EXPECT_EQ(Check(port, ""), 1);
  EXPECT_EQ(Check(port, kWorkerReadiness), 2);
  server.value()->SetReady(true);
  EXPECT_EQ(Check(port, kWorkerReadiness), 1);
  EXPECT_EQ(Check(port, "no.such.Service"), -1);
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
