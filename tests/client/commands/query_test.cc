// Verbs that only ask: list, describe, watch, logs, metrics, checkpoints, workers, version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "configs/spec/load.h"
#include "tests/client/commands/command_fixture.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QueryTest : public CommandTest {
 protected:
  // `count` jobs, at most two a page.
  void ServeJobs(int count) {
    service_.list = [this, count](const ListRequest& request, ListResponse* response) {
      lists_.push_back(request);
      int next = request.page_token().empty() ? 0 : std::stoi(request.page_token());
      const int end = std::min({count, next + 2, next + request.page_size()});
      for (; next < end; ++next) {
        Job job = MakeJob(JOB_STATE_RUNNING);
        job.set_id("j" + std::to_string(next + 1));
        *response->add_jobs() = job;
      }
      if (next < count) response->set_next_page_token(std::to_string(next));
      return grpc::Status();
    };
  }

  std::vector<ListRequest> lists_;
};

TEST_F(QueryTest, ListFollowsPages) {
  ServeJobs(5);
  EXPECT_EQ(Coat({"list", "-o", "name"}).out, "j1\nj2\nj3\nj4\nj5\n");
  EXPECT_EQ(lists_.size(), 3u);
  EXPECT_TRUE(lists_[0].active_only());
  const Outcome some = Coat({"ls", "-n", "3", "-a", "-o", "name"});
  EXPECT_EQ(some.out, "j1\nj2\nj3\n");
  EXPECT_THAT(some.err, HasSubstr("Only the newest 3; more with -n."));
  EXPECT_FALSE(lists_.back().active_only());
  EXPECT_EQ(lists_.back().page_size(), 1);
}

TEST_F(QueryTest, ListAsTables) {
  ServeJobs(1);
  EXPECT_EQ(Coat({"ps"}).out,
            "ID  NAME  STATE      STEP    LOSS  TOK/S  AGE\n"
            "j1  tiny  running  50/100  2.5000      -  90s\n");
  EXPECT_THAT(Coat({"list", "-o", "wide"}).out, HasSubstr("RECIPE  RANKS  ATTEMPT"));
}

TEST_F(QueryTest, ListFilters) {
  ServeJobs(0);
  const Outcome none =
      Coat({"list", "--state", "failed", "--state", "cancelled", "--label", "a=b=c"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(lists_[0].states(), ElementsAre(JOB_STATE_FAILED, JOB_STATE_CANCELLED));
  EXPECT_EQ(lists_[0].labels().at("a"), "b=c");
  EXPECT_FALSE(lists_[0].active_only());
  EXPECT_THAT(none.err, HasSubstr("No active jobs"));
}

TEST_F(QueryTest, JsonHasAllKeysAndNumbersAsNumbers) {
  ServeJobs(1);
  const auto json = nlohmann::json::parse(Coat({"list", "-o", "json"}).out);
  const auto& job = json.at("jobs").at(0);
  EXPECT_EQ(job.at("state"), "running");
  EXPECT_EQ(job.at("step"), 50);
  EXPECT_EQ(job.at("restarts"), 0) << "zeros are printed";
  EXPECT_EQ(job.at("message"), "");
  EXPECT_EQ(job.at("submitted_at"), "2026-01-31T11:58:30Z");
  ServeJobs(0);
  EXPECT_EQ(nlohmann::json::parse(Coat({"list", "-o", "json"}).out).at("jobs").size(), 0u);
}

TEST_F(QueryTest, DescribeShowsEventsAndYamlThatCanBeSubmittedAgain) {
  LoadedJob loaded;
  ASSERT_TRUE(LoadJobText(testing::ReadFile(JobFile()), "job.yaml", {}, &loaded).empty());
  service_.get = [&](const GetRequest&, GetResponse* response) {
    *response->mutable_job() = MakeJob(JOB_STATE_PENDING);
    response->mutable_job()->set_pending_reason(PENDING_REASON_NO_FREE_DEVICES);
    response->mutable_job()->set_message("2 devices wanted\n, 1 free");
    *response->mutable_job()->mutable_spec() = loaded.written;
    return grpc::Status();
  };
  service_.list_events = [](const ListEventsRequest& request, ListEventsResponse* response) {
    auto* event = response->add_events();
    event->set_sequence(request.after_sequence() + 1);
    event->mutable_time()->set_seconds(kNow);
    event->set_state(JOB_STATE_PENDING);
    event->set_message("event " + std::to_string(event->sequence()));
    response->set_more(event->sequence() < 3);
    return grpc::Status();
  };
  const Outcome text = Coat({"describe", "j1"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("State:         pending (no free devices)\n"));
  EXPECT_THAT(text.out, HasSubstr("Message:       2 devices wanted?, 1 free\n"));
  EXPECT_THAT(text.out, HasSubstr("  12:00:00  pending  event 1\n"));
  EXPECT_THAT(text.out, HasSubstr("  12:00:00  pending  event 3\n"));
  const Outcome yaml = Coat({"describe", "j1", "-o", "yaml"});
  LoadedJob again;
  const Violations faults = LoadJobText(yaml.out, "again.yaml", {}, &again);
  EXPECT_TRUE(faults.empty()) << FormatViolations(faults) << yaml.out;
  EXPECT_EQ(again.written.SerializeAsString(), loaded.written.SerializeAsString());
}

TEST_F(QueryTest, WatchPrintsEachChangeOnce) {
  ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
  EXPECT_EQ(Coat({"watch", "j1"}).out,
            "12:00:00  running  attempt 1\n"
            "12:00:00  running  step 50/100, loss 2.5000\n"
            "12:00:01  succeeded  attempt 1\n"
            "12:00:00  succeeded  step 100/100, loss 2.5000\n");
  const std::string lines = Coat({"watch", "j1", "-o", "json"}).out;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_EQ(nlohmann::json::parse(lines.substr(0, lines.find('\n'))).at("job").at("id"), "j1");
}

TEST_F(QueryTest, LogsAreTheBytesThemselves) {
  StreamLogsRequest asked;
  service_.stream_logs = [&](grpc::ServerContext*, const StreamLogsRequest& request,
                             grpc::ServerWriter<StreamLogsResponse>* writer) {
    asked = request;
    StreamLogsResponse response;
    response.set_truncated(true);
    response.set_data(std::string("a\0b\n", 4));
    writer->Write(response);
    response.set_truncated(false);
    response.set_data("no line break at the end");
    writer->Write(response);
    return grpc::Status();
  };
  const Outcome outcome = Coat({"logs", "j1", "--tail", "5", "--rank", "1", "--since", "10m"});
  EXPECT_EQ(outcome.out, std::string("a\0b\nno line break at the end", 28));
  EXPECT_EQ(outcome.err, "coat: output before this point was dropped\n");
  EXPECT_EQ(asked.tail_lines(), 5);
  EXPECT_EQ(asked.rank(), 1);
  EXPECT_EQ(asked.since().seconds(), kNow - 600);
  EXPECT_FALSE(asked.follow());
}

TEST_F(QueryTest, MetricsAsTableLinesAndCurve) {
  service_.stream_metrics = [](grpc::ServerContext*, const StreamMetricsRequest&,
                               grpc::ServerWriter<StreamMetricsResponse>* writer) {
    StreamMetricsResponse response;
    for (int step = 1; step <= 3; ++step) {
      auto* record = response.add_records();
      record->set_step(step);
      record->set_attempt(1);
      record->set_loss(step == 3 ? std::nan("") : 3.0 / step);
      record->set_tokens(512);
      record->set_step_seconds(0.25);
      record->set_learning_rate(0.003);
    }
    writer->Write(response);
    return grpc::Status();
  };
  EXPECT_EQ(Coat({"metrics", "j1", "-n", "2"}).out,
            "STEP  ATTEMPT    LOSS  VALIDATION        LR  GRAD NORM  TOK/S  SECONDS  NOTE\n"
            "   2        1  1.5000           -  0.003000          -  2,048    0.250\n"
            "   3        1     nan           -  0.003000          -  2,048    0.250\n");
  const std::string lines = Coat({"metrics", "j1", "-f", "-o", "json"}).out;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_TRUE(
      nlohmann::json::parse(lines.substr(lines.find("\"step\":3") - 1)).at("loss").is_null());
  EXPECT_THAT(Coat({"metrics", "j1", "--plot"}).out, HasSubstr("2 steps"));
}

TEST_F(QueryTest, CheckpointsAndWorkers) {
  service_.list_checkpoints = [](const ListCheckpointsRequest&, ListCheckpointsResponse* response) {
    auto* checkpoint = response->add_checkpoints();
    checkpoint->set_step(200);
    checkpoint->set_attempt(1);
    checkpoint->set_bytes(6 << 20);
    checkpoint->mutable_time()->set_seconds(kNow);
    checkpoint->set_finite(true);
    checkpoint->set_path("/ckpt/j1/step-200.attempt-1");
    return grpc::Status();
  };
  service_.list_workers = [](const ListWorkersRequest&, ListWorkersResponse* response) {
    auto* worker = response->add_workers();
    worker->set_name("w1");
    worker->set_state(WORKER_STATE_READY);
    for (const char* job : {"", "j1"}) {
      auto* device = worker->add_devices();
      device->set_total_bytes(int64_t{4} << 30);
      device->set_job_id(job);
    }
    worker->set_heartbeat_age_seconds(1.25);
    return grpc::Status();
  };
  EXPECT_EQ(Coat({"checkpoints", "ls", "j1"}).out,
            "STEP  ATTEMPT     SIZE  TIME                  LOSSES  PINNED  PATH\n"
            " 200        1  6.0 MiB  2026-01-31 12:00:00Z  finite  no      "
            "/ckpt/j1/step-200.attempt-1\n");
  EXPECT_EQ(Coat({"checkpoints", "ls", "j1", "-o", "name"}).out, "/ckpt/j1/step-200.attempt-1\n");
  EXPECT_EQ(Coat({"nodes"}).out,
            "NAME  STATE  DEVICES  FREE   MEMORY  HEARTBEAT\n"
            "w1    ready        2     1  8.0 GiB       1.3s\n");
  EXPECT_THAT(Coat({"workers", "-o", "wide"}).out, HasSubstr("JOBS"));
}

TEST_F(QueryTest, VersionWithAndWithoutACoordinator) {
  service_.get_server_info = [](const GetServerInfoRequest&, GetServerInfoResponse* response) {
    response->set_version("9.9.9");
    return grpc::Status();
  };
  EXPECT_THAT(Coat({"version"}).out, HasSubstr("coat-server 9.9.9\n"));
  EXPECT_EQ(nlohmann::json::parse(Coat({"version", "-o", "json"}).out).at("server"), "9.9.9");
  server_.reset();
  const Outcome alone = Coat({"version", "-o", "json", "--server", "127.0.0.1:1"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_TRUE(nlohmann::json::parse(alone.out).at("server").is_null());
}

TEST_F(QueryTest, TheConfigurationFileNamesTheServer) {
  ServeJobs(1);
  testing::WriteFile(folder_.file("config.yaml"), "server: \"" + server_->address() + "\"\n");
  std::istringstream in;
  std::ostringstream out, err;
  Host host = MakeHost(&in, &out, &err);
  host.server.clear();
  EXPECT_EQ(RunCoat({"list", "-o", "name"}, host), 0) << err.str();
  EXPECT_EQ(out.str(), "j1\n");
  testing::WriteFile(folder_.file("config.yaml"), "sever: x\n");
  EXPECT_EQ(RunCoat({"list"}, host), 1);
  EXPECT_THAT(err.str(), HasSubstr("config.yaml:1: sever: is not a field; write 'server'"));
}

}  // namespace
}  // namespace coat
