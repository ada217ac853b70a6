#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <stdexcept>

namespace coat::testing {
namespace {

constexpr int kPollMs = 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

TcpProxy::TcpProxy(int target_port, std::chrono::milliseconds delay)
    : target_port_(target_port), delay_(delay) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    close(listener_);
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stopped_ = true;
  thread_.join();
  for (Link& link : links_) Close(&link);
  close(listener_);
}

void TcpProxy::Close(Link* link) {
  if (link->client >= 0) close(link->client);
  if (link->server >= 0) close(link->server);
  link->client = link->server = -1;
}

void TcpProxy::Accept() {
  Link link;
  link.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (link.client < 0) return;
  link.silent = cut_;
  link.open = std::chrono::steady_clock::now() + delay_;
  if (!link.silent) {
    link.server = Connect(target_port_);
    if (link.server < 0) return Close(&link);
  }
  links_.push_back(link);
}

bool TcpProxy::Forward(int from, int to) {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t more =
        send(to, buffer.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += more;
  }
  return true;
}

void TcpProxy::Run() {
  while (!stopped_) {
    if (cut_) {
      for (Link& link : links_) link.silent = true;
    }
    std::vector<pollfd> waiting = {{listener_, POLLIN, 0}};
    const auto now = std::chrono::steady_clock::now();
    for (const Link& link : links_) {
      // Nobody looks at what is silent, not even at its end.
      const bool open = !link.silent && link.open <= now;
      waiting.push_back({open ? link.client : -1, POLLIN, 0});
      waiting.push_back({open ? link.server : -1, POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), kPollMs) <= 0 || cut_) {
      if (cut_ && (waiting[0].revents & POLLIN) != 0) Accept();
      continue;
    }
    for (size_t i = 0; i < links_.size(); ++i) {
      Link& link = links_[i];
      const bool alive = (waiting[1 + 2 * i].revents == 0 || Forward(link.client, link.server)) &&
                         (waiting[2 + 2 * i].revents == 0 || Forward(link.server, link.client));
      if (!alive) Close(&link);
    }
    std::erase_if(links_, [](const Link& link) { return link.client < 0; });
    if ((waiting[0].revents & POLLIN) != 0) Accept();
  }
}

}  // namespace coat::testing
