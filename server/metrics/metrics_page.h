// The HTTP server of the two pages.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "configs/base/status.h"
#include "server/loops/server_view.h"

namespace coat {

class MetricsPage {
 public:
  // `view` is called at each scrape, from the page's threads. Port 0 is allowed.
  // Errors: kUnavailable when the address cannot be bound.
  static Result<std::unique_ptr<MetricsPage>> Start(const std::string& address,
                                                    std::function<ServerView()> view);
  ~MetricsPage();
  int port() const;

 private:
  struct Impl;
  explicit MetricsPage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coat
