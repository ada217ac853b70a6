#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "configs/base/keepalive.h"
#include "tests/server/api/test_server.h"

namespace coat {
namespace {

using namespace coatrack::v1;

RankKey Key(const std::string& job, int attempt, int rank = 0) {
  RankKey key;
  key.set_job_id(job);
  key.set_attempt(attempt);
  key.set_rank(rank);
  return key;
}

class JobFlowTest : public ::testing::Test {
 protected:
  grpc::Status PushRecord(const RankKey& key, int64_t step, double loss, double seconds = 0.5) {
    PushRecordsRequest request;
    request.set_worker("w");
    request.set_incarnation("w/1");
    *request.mutable_key() = key;
    request.set_next_offset(step * 100);
    StepRecord* record = request.add_records();
    record->set_step(step);
    record->set_phase(PHASE_STEP);
    record->set_loss(loss);
    record->set_tokens(512);
    record->set_step_seconds(seconds);
    grpc::ClientContext context;
    PushRecordsResponse response;
    grpc::Status status = server_.workers()->PushRecords(&context, request, &response);
    if (status.ok()) {
      EXPECT_EQ(response.acknowledged_offset(), step * 100);
    }
    return status;
  }
  void PushLog(const RankKey& key, int64_t offset, const std::string& data, bool final) {
    PushLogsRequest request;
    request.set_worker("w");
    *request.mutable_key() = key;
    request.set_offset(offset);
    request.set_data(data);
    request.set_final(final);
    grpc::ClientContext context;
    PushLogsResponse response;
    const grpc::Status status = server_.workers()->PushLogs(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.next_offset(), offset + static_cast<int64_t>(data.size()));
  }
  std::string RunOne() {
    const std::string id = server_.Submit(TestSpec("tiny")).id();
    EXPECT_TRUE(server_.SyncUntilState({&worker_}, id, JOB_STATE_RUNNING));
    return id;
  }
  void Finish(const std::string& id) {
    worker_.Exit({id, server_.Get(id).attempt(), 0}, REASON_COMPLETED);
    EXPECT_TRUE(server_.SyncUntilState({&worker_}, id, JOB_STATE_SUCCEEDED));
  }

  testing::TempDir dir_;
  TestServer server_{dir_.path().string()};
  FakeWorker worker_{"w", 1, "uuid", {}};
};

TEST_F(JobFlowTest, WatchSeesEveryEventAndEndsWithTheJob) {
  const std::string id = server_.Submit(TestSpec("tiny")).id();
  std::vector<JobEvent> events;
  JobState last = JOB_STATE_UNSPECIFIED;
  std::thread watcher([&] {
    grpc::ClientContext context;
    WatchRequest request;
    request.set_job("tiny");
    const auto stream = server_.jobs()->Watch(&context, request);
    for (WatchResponse response; stream->Read(&response);) {
      last = response.job().state();
      events.insert(events.end(), response.events().begin(), response.events().end());
    }
    EXPECT_TRUE(stream->Finish().ok());
  });
  EXPECT_TRUE(server_.SyncUntilState({&worker_}, id, JOB_STATE_RUNNING));
  EXPECT_TRUE(PushRecord(Key(id, 1), 7, 3.5).ok());
  EXPECT_EQ(server_.Get(id).step(), 7);
  EXPECT_EQ(server_.Get(id).loss(), 3.5);
  EXPECT_EQ(server_.Get(id).tokens_per_second(), 1024.0);
  EXPECT_TRUE(PushRecord(Key(id, 1), 8, 3.5).ok());
  EXPECT_TRUE(PushRecord(Key(id, 1), 9, 3.5, 2.0).ok());  // one slow step is not the speed
  EXPECT_EQ(server_.Get(id).tokens_per_second(), 1024.0);
  Finish(id);
  watcher.join();
  EXPECT_EQ(last, JOB_STATE_SUCCEEDED);
  ASSERT_EQ(events.size(), 4u);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i) + 1);
  }
  EXPECT_EQ(events.back().state(), JOB_STATE_SUCCEEDED);
  // A watch of a finished job shows it and ends.
  grpc::ClientContext context;
  WatchRequest request;
  request.set_job(id);
  request.set_after_sequence(3);
  const auto stream = server_.jobs()->Watch(&context, request);
  WatchResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.events_size(), 1);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(JobFlowTest, MetricsStreamFollowsToTheEnd) {
  const std::string id = RunOne();
  EXPECT_TRUE(PushRecord(Key(id, 1), 1, 5.0).ok());
  std::vector<int64_t> steps;
  std::thread follower([&] {
    grpc::ClientContext context;
    StreamMetricsRequest request;
    request.set_job(id);
    request.set_follow(true);
    request.set_after_step(-1);
    const auto stream = server_.jobs()->StreamMetrics(&context, request);
    for (StreamMetricsResponse response; stream->Read(&response);) {
      for (const StepRecord& record : response.records()) steps.push_back(record.step());
    }
    EXPECT_TRUE(stream->Finish().ok());
  });
  for (int step = 2; step <= 20; ++step) {
    EXPECT_TRUE(PushRecord(Key(id, 1), step, 5.0 / step).ok());
  }
  EXPECT_TRUE(PushRecord(Key(id, 1), 20, 5.0 / 20).ok()) << "a repeated push is acknowledged";
  Finish(id);
  follower.join();
  ASSERT_EQ(steps.size(), 20u);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 20);
}

TEST_F(JobFlowTest, RecordsOfAnotherAttemptAreRefused) {
  const std::string id = RunOne();
  EXPECT_EQ(PushRecord(Key(id, 2), 1, 1.0).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(PushRecord(Key("nobody", 1), 1, 1.0).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(PushRecord(Key(id, 1, 5), 1, 1.0).error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(JobFlowTest, OutputTravelsWhileFollowedAndItsTailComesBeforeTheEnd) {
  const std::string id = RunOne();
  std::string text;
  std::thread follower([&] {
    grpc::ClientContext context;
    StreamLogsRequest request;
    request.set_job(id);
    request.set_follow(true);
    const auto stream = server_.jobs()->StreamLogs(&context, request);
    for (StreamLogsResponse response; stream->Read(&response);) text += response.data();
    EXPECT_TRUE(stream->Finish().ok());
  });
  // The desired state asks for the output only while somebody follows.
  EXPECT_TRUE(server_.SyncUntil({}, [&] {
    grpc::ClientContext context;
    SyncRequest request = worker_.Report();
    SyncResponse response;
    EXPECT_TRUE(server_.workers()->Sync(&context, request, &response).ok());
    return response.logs_size() == 1 && response.logs(0).offset() == 0;
  }));
  PushLog(Key(id, 1), 0, "step 1\n", false);
  PushLog(Key(id, 1), 7, "last line without newline", true);
  Finish(id);
  follower.join();
  EXPECT_EQ(text, "step 1\nlast line without newline");
  grpc::ClientContext context;
  StreamLogsRequest request;
  request.set_job(id);
  request.set_tail_lines(1);
  const auto stream = server_.jobs()->StreamLogs(&context, request);
  StreamLogsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.data(), "last line without newline");
  EXPECT_EQ(response.position().offset(), 32);
  EXPECT_FALSE(stream->Read(&response));
}

TEST_F(JobFlowTest, ASyncIsAnsweredWhenTheDesiredStateChanges) {
  EXPECT_TRUE(server_.Sync(&worker_).ok());
  std::chrono::steady_clock::time_point submitted;
  std::thread submitter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server_.Submit(TestSpec("tiny"));
    submitted = std::chrono::steady_clock::now();
  });
  // A busy machine may take longer to submit than one call waits.
  for (int call = 0; worker_.Running().empty() && call < 20; ++call) {
    EXPECT_TRUE(server_.Sync(&worker_, kSyncMaxWaitMs).ok());
  }
  const auto answered = std::chrono::steady_clock::now();
  submitter.join();
  EXPECT_EQ(worker_.Running().size(), 1u);
  EXPECT_LT(answered - submitted, std::chrono::milliseconds(kSyncMaxWaitMs - 1000));
}

TEST_F(JobFlowTest, RendezvousWaitsForItsValues) {
  const std::string id = RunOne();
  std::thread putter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const char* name : {"a", "b"}) {
      grpc::ClientContext context;
      PutRendezvousRequest request;
      request.set_job_id(id);
      request.set_attempt(1);
      request.set_key(name);
      request.set_value(std::string("value\0of ", 9) + name);
      PutRendezvousResponse response;
      EXPECT_TRUE(server_.workers()->PutRendezvous(&context, request, &response).ok());
    }
  });
  GetRendezvousRequest request;
  request.set_job_id(id);
  request.set_attempt(1);
  request.add_keys("a");
  request.add_keys("b");
  request.set_max_wait_ms(10'000);
  {
    grpc::ClientContext context;
    GetRendezvousResponse response;
    EXPECT_TRUE(server_.workers()->GetRendezvous(&context, request, &response).ok());
    EXPECT_EQ(response.values_size(), 2);
    EXPECT_EQ(response.values().at("b"), std::string("value\0of b", 10));
  }
  putter.join();
  request.set_attempt(9);
  grpc::ClientContext context;
  GetRendezvousResponse response;
  EXPECT_EQ(server_.workers()->GetRendezvous(&context, request, &response).error_code(),
            grpc::StatusCode::ABORTED);
}

TEST_F(JobFlowTest, CancelAndKillSayWhatTheyFind) {
  const auto cancel = [&](const std::string& job) {
    grpc::ClientContext context;
    CancelRequest request;
    request.set_job(job);
    CancelResponse response;
    return server_.jobs()->Cancel(&context, request, &response).error_code();
  };
  EXPECT_EQ(cancel("nobody"), grpc::StatusCode::NOT_FOUND);
  const std::string id = RunOne();
  EXPECT_EQ(cancel(id), grpc::StatusCode::OK);
  EXPECT_TRUE(server_.SyncUntilState({&worker_}, id, JOB_STATE_CANCELLED));
  EXPECT_TRUE(worker_.Running().empty());
  EXPECT_EQ(cancel(id), grpc::StatusCode::FAILED_PRECONDITION);
  const std::string killed = RunOne();
  grpc::ClientContext context;
  KillRequest request;
  request.set_job(killed);
  KillResponse response;
  EXPECT_TRUE(server_.jobs()->Kill(&context, request, &response).ok());
  EXPECT_TRUE(server_.SyncUntilState({&worker_}, killed, JOB_STATE_CANCELLED));
  EXPECT_TRUE(worker_.Running().empty());
}

TEST_F(JobFlowTest, CancelAtFiftyInstantsLeavesNothing) {
  for (int instant = 0; instant < 50; ++instant) {
    const std::string id = server_.Submit(TestSpec("job" + std::to_string(instant))).id();
    for (int i = 0; i < instant % 7; ++i) server_.Sync(&worker_, instant % 3);
    if (instant % 5 == 4) worker_.Exit({id, 1, 0}, REASON_CRASHED);
    grpc::ClientContext context;
    CancelRequest request;
    request.set_job(id);
    CancelResponse response;
    ASSERT_TRUE(server_.jobs()->Cancel(&context, request, &response).ok());
    ASSERT_TRUE(server_.SyncUntilState({&worker_}, id, JOB_STATE_CANCELLED)) << instant;
    EXPECT_TRUE(worker_.Running().empty()) << instant;
  }
}

TEST_F(JobFlowTest, ListPagesNewestFirstAcrossLiveAndFinished) {
  const std::string finished = RunOne();
  Finish(finished);
  for (int i = 0; i < 4; ++i) server_.Submit(TestSpec("job" + std::to_string(i), 2));
  std::vector<std::string> names;
  ListRequest request;
  request.set_page_size(2);
  do {
    grpc::ClientContext context;
    ListResponse response;
    ASSERT_TRUE(server_.jobs()->List(&context, request, &response).ok());
    for (const Job& job : response.jobs()) names.push_back(job.spec().name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"job3", "job2", "job1", "job0", "tiny"}));
  grpc::ClientContext context;
  request.set_page_token("nonsense");
  ListResponse response;
  EXPECT_EQ(server_.jobs()->List(&context, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(server_.Get(finished.substr(0, 8)).id(), finished);
  EXPECT_EQ(server_.Get("tiny").id(), finished);
}

TEST_F(JobFlowTest, PagesShowTheJobAndItsEnd) {
  const std::string id = RunOne();
  EXPECT_TRUE(PushRecord(Key(id, 1), 3, 2.5).ok());
  const std::string series = "coat_train_loss{job_id=\"" + id + "\",job_name=\"tiny\"} 2.5";
  EXPECT_NE(HttpGet(server_.ports().metrics, "/metrics/jobs").find(series), std::string::npos);
  const std::string fleet = HttpGet(server_.ports().metrics, "/metrics");
  EXPECT_NE(fleet.find("coat_jobs{state=\"running\"} 1"), std::string::npos) << fleet;
  EXPECT_NE(fleet.find("coat_workers{state=\"ready\"} 1"), std::string::npos);
  Finish(id);
  EXPECT_NE(HttpGet(server_.ports().metrics, "/metrics/jobs").find(series), std::string::npos)
      << "its last values stay for a while, so that a scrape sees them";
  // Counted once the end is durable.
  EXPECT_TRUE(testing::WaitUntil([&] {
    return HttpGet(server_.ports().metrics, "/metrics")
               .find("coat_jobs_finished_total{result=\"succeeded\",reason=\"completed\"} 1") !=
           std::string::npos;
  }));
}

TEST_F(JobFlowTest, PlanTellsBytesByKindAndPlacement) {
  EXPECT_TRUE(server_.Sync(&worker_).ok());
  grpc::ClientContext context;
  PlanRequest request;
  *request.mutable_spec() = TestSpec("tiny");
  PlanResponse response;
  ASSERT_TRUE(server_.jobs()->Plan(&context, request, &response).ok());
  EXPECT_TRUE(response.fits_now());
  ASSERT_EQ(response.placement_size(), 1);
  EXPECT_EQ(response.placement(0).worker(), "w");
  int64_t total = 0;
  for (const PlannedKind& kind : response.kinds()) total += kind.bytes();
  EXPECT_EQ(total, response.total_bytes());
  EXPECT_GT(response.bf16_total_bytes(), response.total_bytes());
}

}  // namespace
}  // namespace coat
