// The HTTP server of Prometheus pages.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "configs/base/status.h"

namespace coat {

class PageServer {
 public:
  // Called at each scrape, each time on a thread of its own.
  using Render = std::function<std::vector<prometheus::MetricFamily>()>;
  struct Page {
    std::string path;  // "/metrics"
    Render render;
  };

  // `address` "host:port"; port 0: any. Errors: kUnavailable naming the address when it cannot be
  // bound.
  static Result<std::unique_ptr<PageServer>> Start(const std::string& address,
                                                   std::vector<Page> pages);
  // Ends at once; a scrape under way is finished.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const { return port_; }

 private:
  struct Impl;
  PageServer(std::unique_ptr<Impl> impl, std::string host, int port);

  std::unique_ptr<Impl> impl_;
  const std::string host_;
  const int port_;
};

}  // namespace coat
