#include "server/api/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <thread>
#include <utility>

#include "configs/base/keepalive.h"

namespace coat {
namespace {

constexpr int kMaxStreamsPerConnection = 1000;
constexpr const char* kServices[] = {"coatrack.v1.JobService", "coatrack.v1.WorkerService"};

Status CannotBind(const std::string& what, const std::string& address) {
  return {Code::kUnavailable, what + ": " + address + " cannot be bound; is the port taken?"};
}

}  // namespace

struct GrpcServer::Impl {
  Impl(Coordinator* coordinator, const ServerIdentity& identity)
      : jobs(coordinator, identity), workers(coordinator) {}

  JobServiceImpl jobs;
  WorkerServiceImpl workers;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::Server> health_server;
  std::unique_ptr<grpc::ServerCompletionQueue> health_queue;  // a server needs something to poll
  std::thread health_poller;
  int port = 0;
  int health_port = 0;
  bool stopped = false;
};

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcPorts& ports,
                                                      Coordinator* coordinator,
                                                      const ServerIdentity& identity) {
  grpc::EnableDefaultHealthCheckService(true);
  auto impl = std::make_unique<Impl>(coordinator, identity);
  const auto credentials = grpc::InsecureServerCredentials();
  {
    // Built before the reflection plugin is known, so that this port has health alone.
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(ports.health_listen, credentials, &impl->health_port);
    impl->health_queue = builder.AddCompletionQueue();
    impl->health_server = builder.BuildAndStart();
    if (impl->health_server == nullptr || impl->health_port == 0) {
      return CannotBind("health_listen", ports.health_listen);
    }
    impl->health_poller = std::thread([queue = impl->health_queue.get()] {
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) {
      }
    });
  }
  std::unique_ptr<GrpcServer> result(new GrpcServer(std::move(impl)));
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kIdleClientTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddListeningPort(ports.listen, credentials, &result->impl_->port);
  builder.RegisterService(&result->impl_->jobs);
  builder.RegisterService(&result->impl_->workers);
  result->impl_->server = builder.BuildAndStart();
  if (result->impl_->server == nullptr || result->impl_->port == 0) {
    return CannotBind("listen", ports.listen);
  }
  result->SetReady(false);
  return result;
}

GrpcServer::~GrpcServer() {
  Stop(0);
  impl_->health_server->Shutdown(std::chrono::system_clock::now());
  impl_->health_queue->Shutdown();
  impl_->health_poller.join();
}

int GrpcServer::port() const { return impl_->port; }
int GrpcServer::health_port() const { return impl_->health_port; }

void GrpcServer::SetReady(bool ready) {
  for (grpc::Server* server : {impl_->server.get(), impl_->health_server.get()}) {
    if (server == nullptr) continue;
    server->GetHealthCheckService()->SetServingStatus("", true);
    for (const char* service : kServices) {
      server->GetHealthCheckService()->SetServingStatus(service, ready);
    }
  }
}

void GrpcServer::Stop(int64_t grace_ms) {
  if (std::exchange(impl_->stopped, true) || impl_->server == nullptr) return;
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
}

}  // namespace coat
