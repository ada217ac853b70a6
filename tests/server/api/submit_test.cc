#include <google/protobuf/any.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "server/api/spec_check.h"
#include "tests/server/api/test_server.h"
#include "tests/support/grpc_health.h"

namespace coat {
namespace {

using namespace coatrack::v1;

class SubmitTest : public ::testing::Test {
 protected:
  grpc::Status Try(TestServer* server, const SubmitRequest& request, SubmitResponse* response) {
    grpc::ClientContext context;
    return server->jobs()->Submit(&context, request, response);
  }
  testing::TempDir dir_;
};

TEST_F(SubmitTest, FiftyParallelSubmitsWithOneRequestIdAreOneJob) {
  TestServer server(dir_.path().string());
  std::vector<std::string> ids(50);
  std::vector<std::thread> threads;
  for (std::string& id : ids) {
    threads.emplace_back([&] { id = server.Submit(TestSpec("tiny"), "request").id(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
  grpc::ClientContext context;
  ListResponse list;
  ASSERT_TRUE(server.jobs()->List(&context, {}, &list).ok());
  EXPECT_EQ(list.jobs_size(), 1);
}

TEST_F(SubmitTest, ALostReplyRetriedAlsoAcrossARestartIsTheSameJob) {
  std::string id;
  {
    TestServer server(dir_.path().string());
    id = server.Submit(TestSpec("tiny"), "request").id();
    EXPECT_EQ(server.Submit(TestSpec("tiny"), "request").id(), id);
  }
  TestServer server(dir_.path().string());
  EXPECT_EQ(server.Submit(TestSpec("tiny"), "request").id(), id);
  SubmitRequest other;
  *other.mutable_spec() = TestSpec("tiny", 2);
  other.set_request_id("request");
  SubmitResponse response;
  EXPECT_EQ(Try(&server, other, &response).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(SubmitTest, ABadSpecNamesItsFieldsInTheDetails) {
  TestServer server(dir_.path().string());
  SubmitRequest request;
  *request.mutable_spec() = TestSpec("tiny");
  request.mutable_spec()->mutable_train()->set_micro_batch(0);
  SubmitResponse response;
  const grpc::Status status = Try(&server, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::protobuf::Empty details;  // a google.rpc.Status, whose fields are unknown to Empty
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  const auto& fields = details.GetReflection()->GetUnknownFields(details);
  ASSERT_EQ(fields.field_count(), 3);
  EXPECT_EQ(fields.field(0).varint(), 3u);
  google::protobuf::Any any;
  FieldViolations violations;
  ASSERT_TRUE(any.ParseFromString(fields.field(2).length_delimited()));
  ASSERT_TRUE(any.UnpackTo(&violations));
  ASSERT_GE(violations.violations_size(), 1);
  EXPECT_EQ(violations.violations(0).field(), "train.micro_batch");
}

TEST_F(SubmitTest, ATooLargeSpecIsRefused) {
  TestServer server(dir_.path().string());
  SubmitRequest request;
  *request.mutable_spec() = TestSpec("tiny");
  request.mutable_spec()->mutable_data()->add_text(std::string(kMaxSubmittedSpecBytes, 'a'));
  SubmitResponse response;
  EXPECT_EQ(Try(&server, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SubmitTest, ValidateOnlyStoresNothing) {
  TestServer server(dir_.path().string());
  SubmitRequest request;
  *request.mutable_spec() = TestSpec("tiny");
  request.set_validate_only(true);
  SubmitResponse response;
  ASSERT_TRUE(Try(&server, request, &response).ok());
  EXPECT_GT(response.job().predicted_bytes(), 0);
  ASSERT_EQ(response.warnings_size(), 1);
  EXPECT_NE(response.warnings(0).find("NO_FITTING_WORKER"), std::string::npos);
  grpc::ClientContext context;
  ListResponse list;
  ASSERT_TRUE(server.jobs()->List(&context, {}, &list).ok());
  EXPECT_EQ(list.jobs_size(), 0);
}

TEST_F(SubmitTest, AFullQueueIsSaid) {
  ServerConfig config = TestConfig(dir_.path().string());
  config.set_queue_limit(1);
  TestServer server(config);
  server.Submit(TestSpec("one"));
  SubmitRequest request;
  *request.mutable_spec() = TestSpec("two");
  SubmitResponse response;
  const grpc::Status status = Try(&server, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("queue_limit"), std::string::npos);
}

TEST_F(SubmitTest, AnEmptyDatabaseBesideAClusterIdSchedulesNothing) {
  { TestServer server(dir_.path().string()); }
  for (const char* name : {"coatrack.db", "coatrack.db-wal", "coatrack.db-shm"}) {
    std::filesystem::remove(dir_.file(name));
  }
  TestServer server(dir_.path().string());
  SubmitRequest request;
  *request.mutable_spec() = TestSpec("tiny");
  SubmitResponse response;
  EXPECT_EQ(Try(&server, request, &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  FakeWorker worker("w", 1, "uuid", {});
  EXPECT_EQ(server.Sync(&worker).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "an empty desired state would kill what runs there";
  grpc::ClientContext context;
  GetServerInfoResponse info;
  ASSERT_TRUE(server.jobs()->GetServerInfo(&context, {}, &info).ok());
  EXPECT_FALSE(info.scheduling());
  EXPECT_NE(info.message().find("the database is empty"), std::string::npos);
  EXPECT_EQ(testing::HealthStatus(server.ports().health, ""), 1);
  EXPECT_EQ(testing::HealthStatus(server.ports().health, "coatrack.v1.JobService"), 2);
}

}  // namespace
}  // namespace coat
