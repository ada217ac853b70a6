#include "worker/supervisor/health_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

namespace coat {

Result<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  auto queue = builder.AddCompletionQueue();
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0) {
    return Status(Code::kUnavailable,
                  "health_listen: " + address + " cannot be bound; is the port taken?");
  }
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(server), std::move(queue), port));
}

HealthServer::HealthServer(std::unique_ptr<grpc::Server> server,
                           std::unique_ptr<grpc::ServerCompletionQueue> queue, int port)
    : server_(std::move(server)), queue_(std::move(queue)), port_(port) {
  poller_ = std::thread([this] {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
  });
  server_->GetHealthCheckService()->SetServingStatus("", true);
  SetReady(false);
}

HealthServer::~HealthServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  poller_.join();
}

void HealthServer::SetReady(bool ready) {
  server_->GetHealthCheckService()->SetServingStatus(kWorkerReadiness, ready);
}

}  // namespace coat
