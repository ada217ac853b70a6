// The HTTP server of the Prometheus page.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "configs/base/status.h"

namespace coat {

class MetricsServer {
 public:
  // Serves `page` at http://<address>/metrics; `address` "host:port", port 0: any. kUnavailable
  // naming the address when it can't be bound.
  static Result<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::shared_ptr<prometheus::Collectable> page);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }

 private:
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::string host,
                std::shared_ptr<prometheus::Collectable> page);

  std::unique_ptr<prometheus::Exposer> exposer_;
  const std::shared_ptr<prometheus::Collectable> page_;
  const std::string host_;
  const int port_;
};

}  // namespace coat
