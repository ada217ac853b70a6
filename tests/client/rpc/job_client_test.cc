#include "client/rpc/job_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/client/support/fake_service.h"
#include "tests/support/tcp_proxy.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeServer;
using testing::FakeService;

JobClientOptions OptionsFor(const std::string& address) {
  JobClientOptions options;
  options.address = address;
  options.call_timeout = 10s;
  options.retry.first_backoff = 5ms;
  options.retry.max_backoff = 20ms;
  options.retry.stream_patience = 10s;
  return options;
}

grpc::Status Unavailable() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "starting"); }

TEST(JobClientTest, RepeatsACallWhileUnavailable) {
  FakeService service;
  std::vector<std::string> ids;
  service.submit = [&](const SubmitRequest& request, SubmitResponse* response) {
    ids.push_back(request.request_id());
    if (ids.size() < 3) return Unavailable();
    response->mutable_job()->set_id("j1");
    return grpc::Status();
  };
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  SubmitRequest request;
  request.set_request_id("r1");
  const auto response = client.Submit(request);
  ASSERT_TRUE(response.ok()) << response.status().message();
  EXPECT_EQ(response->job().id(), "j1");
  EXPECT_THAT(ids, ElementsAre("r1", "r1", "r1"));
}

TEST(JobClientTest, ASlowLineIsNoReasonToGiveUp) {
  FakeService service;
  service.get = [](const GetRequest&, GetResponse*) { return grpc::Status(); };
  FakeServer server(&service);
  const std::string& address = server.address();
  testing::TcpProxy slow(std::stoi(address.substr(address.rfind(':') + 1)), 500ms);
  JobClientOptions options = OptionsFor(slow.address());
  options.retry.call_attempts = 1;
  JobClient client(options);
  EXPECT_EQ(client.Get({}).status().message(), "");
}

TEST(JobClientTest, GivesUpAfterTheAllowedAttempts) {
  FakeService service;
  int calls = 0;
  service.get = [&](const GetRequest&, GetResponse*) {
    ++calls;
    return Unavailable();
  };
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  EXPECT_EQ(client.Get({}).status().code(), Code::kUnavailable);
  EXPECT_EQ(calls, RetryPolicy().call_attempts);
}

TEST(JobClientTest, RepeatsNothingElse) {
  for (const auto code : {grpc::StatusCode::INTERNAL, grpc::StatusCode::ABORTED,
                          grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::UNKNOWN,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::NOT_FOUND}) {
    FakeService service;
    int calls = 0;
    service.cancel = [&](const CancelRequest&, CancelResponse*) {
      ++calls;
      return grpc::Status(code, "no");
    };
    FakeServer server(&service);
    JobClient client(OptionsFor(server.address()));
    EXPECT_FALSE(client.Cancel({}).ok());
    EXPECT_EQ(calls, 1) << code;
  }
}

TEST(JobClientTest, EveryCallHasADeadline) {
  FakeService service;
  std::atomic<bool> release = false;
  service.list = [&](const ListRequest&, ListResponse*) {
    while (!release) std::this_thread::sleep_for(1ms);
    return grpc::Status();
  };
  FakeServer server(&service);
  JobClientOptions options = OptionsFor(server.address());
  options.call_timeout = 50ms;
  JobClient client(options);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(client.List({}).status().code(), Code::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  release = true;
}

WatchResponse Change(int64_t sequence, JobState state) {
  WatchResponse response;
  response.mutable_job()->set_id("j1");
  response.mutable_job()->set_state(state);
  response.add_events()->set_sequence(sequence);
  return response;
}

TEST(JobClientTest, AWatchGoesOnWhereItBroke) {
  FakeService service;
  std::vector<int64_t> asked;
  service.watch = [&](grpc::ServerContext*, const WatchRequest& request,
                      grpc::ServerWriter<WatchResponse>* writer) {
    asked.push_back(request.after_sequence());
    if (asked.size() == 1) {
      writer->Write(Change(1, JOB_STATE_PENDING));
      writer->Write(Change(2, JOB_STATE_RUNNING));
      return Unavailable();
    }
    if (asked.size() == 2) return Unavailable();
    writer->Write(Change(3, JOB_STATE_SUCCEEDED));
    return grpc::Status();
  };
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  std::vector<int64_t> seen;
  int lost = 0;
  const FollowOptions options{
      .cancel = nullptr, .until = {}, .on_lost = [&](const Status&) { ++lost; }};
  const Status status = client.Watch({}, options, [&](const WatchResponse& response) {
    seen.push_back(response.events(0).sequence());
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_THAT(asked, ElementsAre(0, 2, 2));
  EXPECT_EQ(lost, 1) << "one message for one loss";
}

TEST(JobClientTest, AWatchSurvivesARestartOfTheServer) {
  FakeService service;
  std::atomic<int> streams = 0;
  service.watch = [&](grpc::ServerContext* context, const WatchRequest& request,
                      grpc::ServerWriter<WatchResponse>* writer) {
    if (++streams == 1) {
      writer->Write(Change(1, JOB_STATE_RUNNING));
      while (!context->IsCancelled()) std::this_thread::sleep_for(1ms);
      return grpc::Status(grpc::StatusCode::CANCELLED, "");
    }
    writer->Write(Change(request.after_sequence() + 1, JOB_STATE_SUCCEEDED));
    return grpc::Status();
  };
  auto server = std::make_unique<FakeServer>(&service);
  const int port = server->port();
  JobClient client(OptionsFor(server->address()));
  std::thread restart;
  std::vector<int64_t> seen;
  const Status status = client.Watch({}, {}, [&](const WatchResponse& response) {
    seen.push_back(response.events(0).sequence());
    if (seen.size() == 1) {
      restart = std::thread([&] {
        server.reset();
        server = std::make_unique<FakeServer>(&service, port);
      });
    }
  });
  restart.join();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(JobClientTest, LogsGoOnAtTheirPosition) {
  FakeService service;
  std::vector<StreamLogsRequest> asked;
  service.stream_logs = [&](grpc::ServerContext*, const StreamLogsRequest& request,
                            grpc::ServerWriter<StreamLogsResponse>* writer) {
    asked.push_back(request);
    StreamLogsResponse response;
    response.mutable_position()->set_attempt(1);
    response.mutable_position()->set_offset(asked.size() == 1 ? 6 : 9);
    response.set_data(asked.size() == 1 ? "first\n" : "end");
    writer->Write(response);
    return asked.size() == 1 ? Unavailable() : grpc::Status();
  };
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  StreamLogsRequest request;
  request.set_tail_lines(1);
  request.mutable_since()->set_seconds(5);
  std::string text;
  EXPECT_TRUE(client.StreamLogs(request, {}, [&](const auto& part) { text += part.data(); }).ok());
  EXPECT_EQ(text, "first\nend");
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].tail_lines(), 1);
  EXPECT_EQ(asked[1].from().offset(), 6);
  EXPECT_FALSE(asked[1].has_tail_lines());
  EXPECT_FALSE(asked[1].has_since());
}

TEST(JobClientTest, MetricsGoOnAfterTheLastStep) {
  FakeService service;
  std::vector<int64_t> asked;
  service.stream_metrics = [&](grpc::ServerContext*, const StreamMetricsRequest& request,
                               grpc::ServerWriter<StreamMetricsResponse>* writer) {
    asked.push_back(request.after_step());
    StreamMetricsResponse response;
    response.add_records()->set_step(request.after_step() + 1);
    response.add_records()->set_step(request.after_step() + 2);
    writer->Write(response);
    return asked.size() < 3 ? Unavailable() : grpc::Status();
  };
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  StreamMetricsRequest request;
  request.set_after_step(-1);
  std::vector<int64_t> steps;
  EXPECT_TRUE(client
                  .StreamMetrics(request, {},
                                 [&](const auto& response) {
                                   for (const auto& r : response.records()) {
                                     steps.push_back(r.step());
                                   }
                                 })
                  .ok());
  EXPECT_THAT(asked, ElementsAre(-1, 1, 3));
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5));
}

// Streams that stay open until the client leaves.
void StayOpen(FakeService* service) {
  service->watch = [](grpc::ServerContext* context, const WatchRequest&,
                      grpc::ServerWriter<WatchResponse>* writer) {
    writer->Write(Change(1, JOB_STATE_RUNNING));
    while (!context->IsCancelled()) std::this_thread::sleep_for(1ms);
    return grpc::Status(grpc::StatusCode::CANCELLED, "");
  };
}

TEST(JobClientTest, ACancelledTokenEndsTheStream) {
  FakeService service;
  StayOpen(&service);
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  CancelToken token;
  std::thread other;
  const Status status =
      client.Watch({}, {.cancel = &token, .until = {}, .on_lost = {}},
                   [&](const auto&) { other = std::thread([&] { token.Cancel(); }); });
  other.join();
  EXPECT_EQ(status.code(), Code::kStopped);
  EXPECT_EQ(
      client.Watch({}, {.cancel = &token, .until = {}, .on_lost = {}}, [](const auto&) {}).code(),
      Code::kStopped)
      << "a token stays cancelled";
}

TEST(JobClientTest, FollowingEndsAtItsTime) {
  FakeService service;
  StayOpen(&service);
  FakeServer server(&service);
  JobClient client(OptionsFor(server.address()));
  const auto until = std::chrono::steady_clock::now() + 100ms;
  const Status status =
      client.Watch({}, {.cancel = nullptr, .until = until, .on_lost = {}}, [](const auto&) {});
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
}

TEST(JobClientTest, ALongStreamIsRenewedQuietly) {
  FakeService service;
  std::atomic<int> streams = 0;
  service.watch = [&](grpc::ServerContext* context, const WatchRequest&,
                      grpc::ServerWriter<WatchResponse>* writer) {
    if (++streams == 3) {
      writer->Write(Change(1, JOB_STATE_SUCCEEDED));
      return grpc::Status();
    }
    while (!context->IsCancelled()) std::this_thread::sleep_for(1ms);
    return grpc::Status(grpc::StatusCode::CANCELLED, "");
  };
  FakeServer server(&service);
  JobClientOptions options = OptionsFor(server.address());
  options.retry.stream_deadline = 100ms;
  JobClient client(options);
  int lost = 0;
  EXPECT_TRUE(
      client
          .Watch({}, {.cancel = nullptr, .until = {}, .on_lost = [&](const Status&) { ++lost; }},
                 [](const auto&) {})
          .ok());
  EXPECT_EQ(streams, 3);
  EXPECT_EQ(lost, 0);
}

TEST(JobClientTest, PatienceWithABrokenStreamEnds) {
  JobClientOptions options = OptionsFor("127.0.0.1:1");
  options.retry.stream_patience = 50ms;
  JobClient client(options);
  EXPECT_EQ(client.Watch({}, {}, [](const auto&) {}).code(), Code::kUnavailable);
}

TEST(RetryPolicyTest, BacksOffUpToItsLimit) {
  RetryPolicy policy;
  policy.first_backoff = 100ms;
  policy.max_backoff = 350ms;
  EXPECT_EQ(policy.Backoff(1), 100ms);
  EXPECT_EQ(policy.Backoff(2), 200ms);
  EXPECT_EQ(policy.Backoff(3), 350ms);
  EXPECT_EQ(policy.Backoff(1000), 350ms);
}

}  // namespace
}  // namespace coat
