#include "server/api/server_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/server/api/test_server.h"
#include "tests/support/grpc_health.h"

namespace coat {
namespace {

using namespace coatrack::v1;

const char* const kProgram = COAT_BINARY_DIR "/bin/coat-server";

std::vector<std::string> Command(const std::string& state_dir) {
  return {kProgram,           "--listen",    "127.0.0.1:0", "--health-listen", "127.0.0.1:0",
          "--metrics-listen", "127.0.0.1:0", "--state-dir", state_dir,         "--set",
          "reconcile_wait=1s"};
}

// A port that ports.json names once the process with this id has written it.
int PortOf(const std::string& name, const std::string& state_dir, pid_t pid) {
  int port = 0;
  EXPECT_TRUE(testing::WaitUntil([&] {
    const auto shown = nlohmann::json::parse(testing::ReadFile(state_dir + "/ports.json"), nullptr,
                                             /*allow_exceptions=*/false);
    if (shown.is_discarded() || shown["pid"] != pid) return false;
    port = shown[name];
    return true;
  }));
  return port;
}
int ListenPort(const std::string& state_dir, pid_t pid) { return PortOf("listen", state_dir, pid); }
int MetricsPort(const std::string& state_dir, pid_t pid) {
  return PortOf("metrics", state_dir, pid);
}

TEST(ServerProcessTest, BeyondLoopbackNeedsInsecurePlaintext) {
  testing::TempDir dir;
  SystemClock clock;
  ServerConfig config = TestConfig(dir.path().string());
  config.set_listen("0.0.0.0:0");
  const auto refused = ServerProcess::Start(config, &clock, [](const std::string&) {});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("--insecure-plaintext"), std::string::npos);
  config.set_insecure_plaintext(true);
  EXPECT_TRUE(ServerProcess::Start(config, &clock, [](const std::string&) {}).ok());
}

TEST(ServerProcessTest, OneCoordinatorOnAStateFolder) {
  testing::TempDir dir;
  TestServer server(dir.path().string());
  SystemClock clock;
  const auto second =
      ServerProcess::Start(TestConfig(dir.path().string()), &clock, [](const std::string&) {});
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
}

TEST(ServerProcessTest, ATakenPortIsNamed) {
  testing::TempDir dir;
  testing::TempDir other;
  TestServer server(dir.path().string());
  SystemClock clock;
  ServerConfig config = TestConfig(other.path().string());
  config.set_listen("127.0.0.1:" + std::to_string(server.ports().listen));
  const auto refused = ServerProcess::Start(config, &clock, [](const std::string&) {});
  EXPECT_EQ(refused.status().code(), Code::kUnavailable);
  EXPECT_NE(refused.status().message().find(config.listen()), std::string::npos);
}

TEST(ServerProcessTest, HealthIsPerServiceAndAloneOnItsPort) {
  testing::TempDir dir;
  TestServer server(dir.path().string());
  for (const char* service : {"", "coatrack.v1.JobService", "coatrack.v1.WorkerService"}) {
    EXPECT_EQ(testing::HealthStatus(server.ports().listen, service), 1) << service;
    EXPECT_EQ(testing::HealthStatus(server.ports().health, service), 1) << service;
  }
  EXPECT_EQ(testing::HealthStatus(server.ports().health, "nobody"), -1);
  const auto stub = JobService::NewStub(ChannelTo(server.ports().health));
  grpc::ClientContext context;
  ListResponse response;
  EXPECT_EQ(stub->List(&context, {}, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ServerProcessTest, UsageErrorsExitWithTwo) {
  EXPECT_EQ(testing::RunProgram({kProgram, "--no-such-flag"}).status, 2);
  const testing::Finished bad = testing::RunProgram({kProgram, "--set", "lease=fifteen"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.err.find("lease"), std::string::npos) << bad.err;
  EXPECT_EQ(testing::RunProgram({kProgram, "--help"}).status, 0);
}

TEST(ServerProcessTest, SigtermStopsCleanlyWithStreamsOpen) {
  testing::TempDir dir;
  const std::string state = dir.file("state");
  testing::Process process(Command(state), {dir.file("output"), {}, ""});
  const auto stub = JobService::NewStub(ChannelTo(ListenPort(state, process.pid())));
  grpc::ClientContext submit;
  SubmitRequest request;
  *request.mutable_spec() = TestSpec("tiny");
  SubmitResponse response;
  ASSERT_TRUE(stub->Submit(&submit, request, &response).ok());
  grpc::ClientContext context;
  WatchRequest watch;
  watch.set_job("tiny");
  const auto stream = stub->Watch(&context, watch);
  WatchResponse first;
  ASSERT_TRUE(stream->Read(&first));
  std::thread reader([&] {
    while (stream->Read(&first)) {
    }
  });
  const auto start = std::chrono::steady_clock::now();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(std::chrono::seconds(15)), 0) << testing::ReadFile(dir.file("output"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500))
      << "the stream is ended, not waited for";
  reader.join();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ServerProcessTest, StopsAtOnceWhenIdle) {
  testing::TempDir dir;
  const std::string state = dir.file("state");
  testing::Process process(Command(state), {dir.file("output"), {}, ""});
  const std::string page = HttpGet(MetricsPort(state, process.pid()), "/metrics");
  EXPECT_NE(page.find("coat_leader 1"), std::string::npos) << page;
  const auto start = std::chrono::steady_clock::now();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(std::chrono::seconds(15)), 0) << testing::ReadFile(dir.file("output"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
}

// Acknowledged is durable: kill -9 at any moment loses no job whose submit was answered.
TEST(ServerProcessTest, KillUnderSubmitsLosesNothingAcknowledged) {
  testing::TempDir dir;
  const std::string state = dir.file("state");
  std::set<std::string> acknowledged;
  for (int round = 0; round < 3; ++round) {
    testing::Process process(Command(state), {dir.file("output"), {}, ""});
    const int port = ListenPort(state, process.pid());
    std::mutex mutex;
    std::atomic<bool> stop{false};
    std::atomic<int> answered{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const auto stub = JobService::NewStub(ChannelTo(port));
        for (int i = 0; !stop; ++i) {
          grpc::ClientContext context;
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
          SubmitRequest request;
          *request.mutable_spec() = TestSpec("tiny");
          request.set_request_id(std::to_string(round) + "/" + std::to_string(t) + "/" +
                                 std::to_string(i));
          SubmitResponse response;
          if (!stub->Submit(&context, request, &response).ok()) return;
          std::lock_guard<std::mutex> lock(mutex);
          acknowledged.insert(response.job().id());
          ++answered;
        }
      });
    }
    EXPECT_TRUE(testing::WaitUntil([&] { return answered >= 40 + 10 * round; }));
    process.Signal(SIGKILL);
    stop = true;
    for (std::thread& thread : threads) thread.join();
    process.Wait(std::chrono::seconds(10));
  }
  TestServer server(state);
  std::set<std::string> kept;
  ListRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    ListResponse response;
    ASSERT_TRUE(server.jobs()->List(&context, request, &response).ok());
    for (const Job& job : response.jobs()) kept.insert(job.id());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  for (const std::string& id : acknowledged) EXPECT_TRUE(kept.contains(id)) << id;
  EXPECT_GE(acknowledged.size(), 150u);
}

// Jobs that run while the coordinator dies and comes back do not notice.
TEST(ServerProcessTest, ARestartWithJobsRunningChangesNothingForThem) {
  testing::TempDir dir;
  FakeWorker a("a", 1, "uuid", {});
  FakeWorker b("b", 1, "uuid", {});
  std::string id;
  {
    TestServer server(dir.path().string());
    id = server.Submit(TestSpec("tiny", 2)).id();
    ASSERT_TRUE(server.SyncUntilState({&a, &b}, id, JOB_STATE_RUNNING));
  }
  b.Exit({id, 1, 1}, REASON_COMPLETED);  // while nobody listens
  TestServer server(dir.path().string());
  EXPECT_EQ(server.Get(id).state(), JOB_STATE_RUNNING);
  ASSERT_TRUE(server.SyncUntil({&a, &b}, [&] { return b.Report().ranks_size() == 0; }))
      << "the exit is acknowledged";
  EXPECT_EQ(a.Running().size(), 1u);
  EXPECT_EQ(server.Get(id).attempt(), 1);
  a.Exit({id, 1, 0}, REASON_COMPLETED);
  EXPECT_TRUE(server.SyncUntilState({&a, &b}, id, JOB_STATE_SUCCEEDED));
}

}  // namespace
}  // namespace coat
