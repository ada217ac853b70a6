#include "tests/server/api/test_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "configs/spec/defaults.h"

namespace coat {

coatrack::v1::ServerConfig TestConfig(const std::string& state_dir) {
  coatrack::v1::ServerConfig config;
  config.set_listen("127.0.0.1:0");
  config.set_health_listen("127.0.0.1:0");
  config.set_metrics_listen("127.0.0.1:0");
  config.set_state_dir(state_dir);
  config.mutable_reconcile_wait()->set_seconds(1);
  ApplyDefaults(&config);
  return config;
}

coatrack::v1::JobSpec TestSpec(const std::string& name, int ranks) {
  coatrack::v1::JobSpec spec;
  spec.set_api_version("coatrack/v1");
  spec.set_name(name);
  spec.mutable_model()->set_preset("llama-tiny");
  spec.mutable_data()->add_text("corpus/*.txt");
  spec.mutable_train()->set_steps(100);
  spec.mutable_train()->set_sequence_length(128);
  spec.mutable_train()->set_global_batch(4);
  spec.mutable_train()->set_micro_batch(2);
  spec.mutable_optimizer()->set_lr(3e-3);
  spec.mutable_resources()->set_ranks(ranks);
  spec.mutable_resources()->set_device(coatrack::v1::DEVICE_KIND_CPU);
  return spec;
}

std::shared_ptr<grpc::Channel> ChannelTo(int port) {
  return grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                             grpc::InsecureChannelCredentials());
}

TestServer::TestServer(const std::string& state_dir) : TestServer(TestConfig(state_dir)) {}

TestServer::TestServer(const coatrack::v1::ServerConfig& config) {
  Result<std::unique_ptr<ServerProcess>> process =
      ServerProcess::Start(config, &clock_, [](const std::string&) {});
  if (!process.ok()) throw std::runtime_error(process.status().ToString());
  process_ = std::move(*process);
  const auto channel = ChannelTo(process_->ports().listen);
  jobs_ = coatrack::v1::JobService::NewStub(channel);
  workers_ = coatrack::v1::WorkerService::NewStub(channel);
}

coatrack::v1::Job TestServer::Submit(const coatrack::v1::JobSpec& spec,
                                     const std::string& request_id) {
  grpc::ClientContext context;
  coatrack::v1::SubmitRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  coatrack::v1::SubmitResponse response;
  const grpc::Status status = jobs_->Submit(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.job();
}

coatrack::v1::Job TestServer::Get(const std::string& job) {
  grpc::ClientContext context;
  coatrack::v1::GetRequest request;
  request.set_job(job);
  coatrack::v1::GetResponse response;
  const grpc::Status status = jobs_->Get(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.job();
}

grpc::Status TestServer::Sync(FakeWorker* worker, int max_wait_ms) {
  grpc::ClientContext context;
  coatrack::v1::SyncRequest request = worker->Report();
  request.set_max_wait_ms(max_wait_ms);
  coatrack::v1::SyncResponse response;
  grpc::Status status = workers_->Sync(&context, request, &response);
  if (status.ok()) worker->Apply(response);
  return status;
}

bool TestServer::SyncUntil(const std::vector<FakeWorker*>& workers,
                           const std::function<bool()>& condition) {
  return testing::WaitUntil([&] {
    for (FakeWorker* worker : workers) Sync(worker, 20);
    return condition();
  });
}

bool TestServer::SyncUntilState(const std::vector<FakeWorker*>& workers, const std::string& job,
                                coatrack::v1::JobState state) {
  return SyncUntil(workers, [&] { return Get(job).state() == state; });
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  std::string body;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
    if (write(fd, request.data(), request.size()) > 0) {
      char buffer[4096];
      for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) body.append(buffer, got);
    }
  }
  close(fd);
  return body;
}

}  // namespace coat
