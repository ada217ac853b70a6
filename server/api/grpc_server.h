// The gRPC ports: the API with health and reflection, and a second server with health alone.
#pragma once

#include <memory>
#include <string>

#include "configs/base/status.h"
#include "server/api/services.h"

namespace coat {

struct GrpcPorts {
  std::string listen;  // host:port; port 0: any
  std::string health_listen;
};

class GrpcServer {
 public:
  // Errors: kUnavailable naming the address that cannot be bound.
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcPorts& ports, Coordinator* coordinator,
                                                   const ServerIdentity& identity);
  ~GrpcServer();
  int port() const;
  int health_port() const;
  // Readiness of both services: "" is alive, they are ready.
  void SetReady(bool ready);
  // Refuses new calls, gives running ones `grace_ms`.
  void Stop(int64_t grace_ms);

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coat
