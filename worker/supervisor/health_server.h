// gRPC's health service on a port of its own, for probes.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <thread>

#include "configs/base/status.h"

namespace coat {

inline constexpr char kWorkerReadiness[] = "coatrack.v1.WorkerService";

// "" serves while the process lives; kWorkerReadiness while the coordinator answers and the worker
// does not drain.
class HealthServer {
 public:
  // `address` "host:port", port 0: any. kUnavailable naming the address when it can't be bound.
  static Result<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  int port() const { return port_; }
  void SetReady(bool ready);

 private:
  HealthServer(std::unique_ptr<grpc::Server> server,
               std::unique_ptr<grpc::ServerCompletionQueue> queue, int port);

  const std::unique_ptr<grpc::Server> server_;
  // A server of the health service alone still needs a queue that somebody polls.
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const int port_;
  std::thread poller_;
};

}  // namespace coat
