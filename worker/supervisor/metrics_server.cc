#include "worker/supervisor/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace coat {
namespace {

// Opens and closes a connection to a local port.
void Touch(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1 ||
      address.sin_addr.s_addr == INADDR_ANY) {
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  close(fd);
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::shared_ptr<prometheus::Collectable> page) {
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(address);
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, "metrics_listen: " + address + " cannot be bound (" +
                                          error.what() + "); is the port taken?");
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(
      std::move(exposer), address.substr(0, address.rfind(':')), std::move(page)));
}

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::string host,
                             std::shared_ptr<prometheus::Collectable> page)
    : exposer_(std::move(exposer)),
      page_(std::move(page)),
      host_(std::move(host)),
      port_(exposer_->GetListeningPorts().at(0)) {
  exposer_->RegisterCollectable(page_);
}

MetricsServer::~MetricsServer() {
  // Its accepting thread looks for the end only every two seconds, or when somebody connects.
  std::atomic<bool> ended = false;
  std::thread end([&] {
    exposer_.reset();
    ended = true;
  });
  while (!ended) {
    Touch(host_, port_);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  end.join();
}

}  // namespace coat
