// Runs `coat` in this process against a fake coordinator.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "client/commands/verbs.h"
#include "tests/client/support/fake_service.h"
#include "tests/support/process.h"

namespace coat {

inline constexpr int64_t kNow = 1769860800;  // 2026-01-31 12:00:00 UTC

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override { server_ = std::make_unique<testing::FakeServer>(&service_); }

  Host MakeHost(std::istream* in, std::ostream* out, std::ostream* err) const {
    Host host;
    host.in = in;
    host.out = out;
    host.err = err;
    host.config_path = folder_.file("config.yaml");
    host.server = server_ == nullptr ? "" : server_->address();
    host.retry.first_backoff = std::chrono::milliseconds(5);
    host.retry.max_backoff = std::chrono::milliseconds(10);
    host.retry.stream_patience = std::chrono::milliseconds(300);
    host.now_s = [] { return kNow; };
    return host;
  }

  Outcome Coat(const std::vector<std::string>& arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out, err;
    Outcome outcome;
    outcome.code = RunCoat(arguments, MakeHost(&in, &out, &err));
    outcome.out = out.str();
    outcome.err = err.str();
    return outcome;
  }

  // A job file in the test's folder.
  std::string JobFile() {
    const std::string path = folder_.file("job.yaml");
    testing::WriteFile(path, R"(name: tiny
model: {preset: llama-tiny}
data: {text: ["corpus/*.txt"]}
train: {steps: 100, sequence_length: 128, global_batch: 4, micro_batch: 2}
optimizer: {lr: 0.003}
resources: {ranks: 2, device: cpu}
)");
    return path;
  }

  static coatrack::v1::Job MakeJob(coatrack::v1::JobState state) {
    coatrack::v1::Job job;
    job.set_id("j1");
    job.mutable_spec()->set_name("tiny");
    job.mutable_spec()->mutable_resources()->set_ranks(2);
    job.set_state(state);
    job.set_attempt(1);
    job.set_step(50);
    job.set_steps(100);
    job.set_loss(2.5);
    job.mutable_submitted_at()->set_seconds(kNow - 90);
    return job;
  }

  // Submit answers with job j1; a watch sends the job running and then in `end`.
  void ServeJobThatEnds(coatrack::v1::JobState end, coatrack::v1::Reason reason) {
    service_.submit = [this](const coatrack::v1::SubmitRequest& request,
                             coatrack::v1::SubmitResponse* response) {
      submitted_.push_back(request);
      *response->mutable_job() = MakeJob(coatrack::v1::JOB_STATE_PENDING);
      return grpc::Status();
    };
    service_.watch = [=](grpc::ServerContext*, const coatrack::v1::WatchRequest& request,
                         grpc::ServerWriter<coatrack::v1::WatchResponse>* writer) {
      if (request.job() != "j1") return grpc::Status(grpc::StatusCode::NOT_FOUND, "no job x");
      coatrack::v1::WatchResponse response;
      *response.mutable_job() = MakeJob(coatrack::v1::JOB_STATE_RUNNING);
      auto* event = response.add_events();
      event->set_sequence(1);
      event->mutable_time()->set_seconds(kNow);
      event->set_state(coatrack::v1::JOB_STATE_RUNNING);
      event->set_attempt(1);
      writer->Write(response);
      response.Clear();
      *response.mutable_job() = MakeJob(end);
      response.mutable_job()->set_step(100);
      response.mutable_job()->set_reason(reason);
      event = response.add_events();
      event->set_sequence(2);
      event->mutable_time()->set_seconds(kNow + 1);
      event->set_state(end);
      event->set_reason(reason);
      event->set_attempt(1);
      writer->Write(response);
      return grpc::Status();
    };
  }

  testing::TempDir folder_;
  testing::FakeService service_;
  std::unique_ptr<testing::FakeServer> server_;
  std::vector<coatrack::v1::SubmitRequest> submitted_;
};

}  // namespace coat
