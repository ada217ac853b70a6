#include "configs/metrics/page_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <thread>
#include <utility>

namespace coat {
namespace {

constexpr std::chrono::milliseconds kKnockInterval(10);

class RenderedPage final : public prometheus::Collectable {
 public:
  explicit RenderedPage(PageServer::Render render) : render_(std::move(render)) {}
  // civetweb's threads have a stack of 100 KiB, into which not every page fits.
  std::vector<prometheus::MetricFamily> Collect() const override {
    return std::async(std::launch::async, render_).get();
  }

 private:
  const PageServer::Render render_;
};

// "[::1]:80" -> "::1"
std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// Opens and closes a connection; that it may fail does not matter.
void Knock(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  // The unspecified address connects to this host.
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints,
                  &found) != 0) {
    return;
  }
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    static_cast<void>(connect(fd, one->ai_addr, one->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

struct PageServer::Impl {
  std::vector<std::shared_ptr<RenderedPage>> pages;  // the exposer holds them weakly
  std::unique_ptr<prometheus::Exposer> exposer;
};

Result<std::unique_ptr<PageServer>> PageServer::Start(const std::string& address,
                                                      std::vector<Page> pages) {
  auto impl = std::make_unique<Impl>();
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(address);
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, "metrics_listen: " + address + " cannot be bound (" +
                                          error.what() + "); is the port taken?");
  }
  for (Page& page : pages) {
    impl->pages.push_back(std::make_shared<RenderedPage>(std::move(page.render)));
    impl->exposer->RegisterCollectable(impl->pages.back(), page.path);
  }
  const int port = impl->exposer->GetListeningPorts().at(0);
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl), HostOf(address), port));
}

PageServer::PageServer(std::unique_ptr<Impl> impl, std::string host, int port)
    : impl_(std::move(impl)), host_(std::move(host)), port_(port) {}

PageServer::~PageServer() {
  // Its accepting thread looks for the end only every two seconds, or when somebody connects.
  std::atomic<bool> ended = false;
  std::thread end([&] {
    impl_->exposer.reset();
    ended = true;
  });
  while (!ended) {
    Knock(host_, port_);
    std::this_thread::sleep_for(kKnockInterval);
  }
  end.join();
}

}  // namespace coat
