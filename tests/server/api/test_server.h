// A coordinator with real ports and a database of its own, and workers without processes.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job_service.grpc.pb.h"
#include "coatrack/v1/worker_service.grpc.pb.h"
#include "server/api/server_process.h"
#include "tests/scenarios/fake_worker.h"
#include "tests/support/process.h"

namespace coat {

using JobStub = coatrack::v1::JobService::Stub;
using WorkerStub = coatrack::v1::WorkerService::Stub;

// Defaults, any ports, short waits.
coatrack::v1::ServerConfig TestConfig(const std::string& state_dir);
coatrack::v1::JobSpec TestSpec(const std::string& name, int ranks = 1);
std::shared_ptr<grpc::Channel> ChannelTo(int port);

class TestServer {
 public:
  explicit TestServer(const std::string& state_dir);
  explicit TestServer(const coatrack::v1::ServerConfig& config);
  JobStub* jobs() { return jobs_.get(); }
  WorkerStub* workers() { return workers_.get(); }
  const BoundPorts& ports() const { return process_->ports(); }
  const std::string& refusal() const { return process_->refusal(); }

  coatrack::v1::Job Submit(const coatrack::v1::JobSpec& spec, const std::string& request_id = "");
  coatrack::v1::Job Get(const std::string& job);
  // One report of the worker, its answer applied.
  grpc::Status Sync(FakeWorker* worker, int max_wait_ms = 0);
  // Syncs the workers until the condition holds; false after 20 s.
  bool SyncUntil(const std::vector<FakeWorker*>& workers, const std::function<bool()>& condition);
  bool SyncUntilState(const std::vector<FakeWorker*>& workers, const std::string& job,
                      coatrack::v1::JobState state);

 private:
  SystemClock clock_;
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<JobStub> jobs_;
  std::unique_ptr<WorkerStub> workers_;
};

// Body of an HTTP GET on 127.0.0.1.
std::string HttpGet(int port, const std::string& path);

}  // namespace coat
