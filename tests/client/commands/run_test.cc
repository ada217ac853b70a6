#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/commands/command_fixture.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::HasSubstr;

void AddKind(google::protobuf::RepeatedPtrField<KindBytes>* kinds, const char* kind,
             int64_t bytes) {
  auto* added = kinds->Add();
  added->set_kind(kind);
  added->set_bytes(bytes);
}

class RunTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
    service_.stream_metrics = [](grpc::ServerContext*, const StreamMetricsRequest& request,
                                 grpc::ServerWriter<StreamMetricsResponse>* writer) {
      StreamMetricsResponse response;
      auto* start = response.add_records();
      start->set_validation_loss(5.5);
      for (int step = 1; step <= 100; ++step) {
        auto* record = response.add_records();
        record->set_step(step);
        record->set_attempt(1);
        record->set_loss(5.5 - 0.03 * step);
        record->set_tokens(512);
        record->set_tokens_total(512 * step);
        record->set_step_seconds(0.1);
      }
      auto* end = response.mutable_records(100);
      end->set_validation_loss(2.4);
      const bool bf16 = request.job() == "b1";
      AddKind(end->mutable_memory(), "weights", bf16 ? 2048 : 1024);
      AddKind(end->mutable_memory(), "optimizer", bf16 ? 8192 : 2048);
      AddKind(end->mutable_memory(), "other", 512);
      AddKind(end->mutable_memory_planned(), "weights", 1024);
      AddKind(end->mutable_memory_planned(), "optimizer", 2048);
      AddKind(end->mutable_memory_planned_bf16(), "weights", 2048);
      AddKind(end->mutable_memory_planned_bf16(), "optimizer", 8192);
      writer->Write(response);
      return grpc::Status();
    };
    service_.get_server_info = [](const GetServerInfoRequest&, GetServerInfoResponse* response) {
      response->set_metrics_address("127.0.0.1:7072");
      return grpc::Status();
    };
    service_.get = [](const GetRequest& request, GetResponse* response) {
      response->mutable_job()->set_id(request.job());
      response->mutable_job()->mutable_spec()->mutable_precision()->set_recipe(RECIPE_BF16);
      return grpc::Status();
    };
  }
};

TEST_F(RunTest, FollowsAndSumsUp) {
  const Outcome outcome = Coat({"run", JobFile()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Training loss (nats a token)"));
  EXPECT_THAT(outcome.out, HasSubstr("   5.470 |*"));
  EXPECT_THAT(outcome.out, HasSubstr("100 steps"));
  EXPECT_THAT(outcome.out,
              HasSubstr("Validation loss: 5.5000 before, 2.4000 after (nats a token)\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("Trained on 51,200 tokens in 10.0s of steps (5,120 tokens/s)\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("KIND       BF16 PLANNED  COAT PLANNED  COAT MEASURED  CHANGE\n"
                        "weights         2.0 KiB       1.0 KiB        1.0 KiB   -50 %\n"
                        "optimizer       8.0 KiB       2.0 KiB        2.0 KiB   -75 %\n"
                        "other                 -             -          512 B       -\n"
                        "total          10.0 KiB       3.0 KiB        3.5 KiB   -70 %\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Metrics: http://127.0.0.1:7072/metrics\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Next: coat describe j1 |"));
  EXPECT_THAT(outcome.err, HasSubstr("Job j1 (tiny) is submitted.\n"));
  EXPECT_THAT(outcome.err, HasSubstr("12:00:00  running  attempt 1\n"));
  EXPECT_THAT(outcome.err, HasSubstr("Job j1 succeeded.\n"));
}

TEST_F(RunTest, ComparesWithTheMeasuredMemoryOfAnotherRun) {
  const Outcome outcome = Coat({"run", JobFile(), "--compare", "b1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("BF16 PLANNED  BF16 MEASURED  COAT PLANNED  COAT MEASURED  CHANGE\n"));
  EXPECT_THAT(
      outcome.out,
      HasSubstr("total          10.0 KiB       10.5 KiB       3.0 KiB        3.5 KiB   -67 %"));
}

TEST_F(RunTest, DetachedItOnlySubmits) {
  const Outcome outcome = Coat({"run", "-d", JobFile()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "j1\n");
  EXPECT_THAT(outcome.err, HasSubstr("Follow it with: coat watch j1"));
}

TEST_F(RunTest, AScreenGetsAProgressLine) {
  std::istringstream in;
  std::ostringstream out, err;
  Host host = MakeHost(&in, &out, &err);
  host.err_terminal = {.kind = Terminal::Kind::kScreen, .columns = 90};
  EXPECT_EQ(RunCoat({"run", JobFile()}, host), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("\r\x1b[K["));
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos) << "data is plain";
}

TEST_F(RunTest, AFileGetsPlainLines) {
  const Outcome outcome = Coat({"run", JobFile()});
  EXPECT_EQ(outcome.err.find('\r'), std::string::npos);
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
}

TEST_F(RunTest, WithoutRecordsTheEndIsStillTold) {
  service_.stream_metrics = nullptr;
  ServeJobThatEnds(JOB_STATE_FAILED, REASON_OUT_OF_DEVICE_MEMORY);
  const Outcome outcome = Coat({"run", JobFile()});
  EXPECT_EQ(outcome.code, 100);
  EXPECT_THAT(outcome.err, HasSubstr("Job j1 failed (out of device memory)"));
}

TEST_F(RunTest, JsonIsTheJob) {
  const Outcome outcome = Coat({"run", JobFile(), "-o", "json"});
  EXPECT_THAT(outcome.out, HasSubstr("\"state\": \"succeeded\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"id\": \"j1\""));
  EXPECT_EQ(outcome.out.find("Metrics:"), std::string::npos);
}

}  // namespace
}  // namespace coat
