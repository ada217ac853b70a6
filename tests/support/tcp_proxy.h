// A network between two programs that a test can cut.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace coat::testing {

// Forwards connections from a port of its own on 127.0.0.1 to another one.
class TcpProxy {
 public:
  // `delay`: a new connection is silent that long, as over a slow line. Throws std::runtime_error
  // when no port can be bound.
  explicit TcpProxy(int target_port, std::chrono::milliseconds delay = {});
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // As when a cable is pulled: connections stay open, but nothing more passes; new ones are
  // accepted and as silent. Silent connections stay so until the proxy ends.
  void Cut() { cut_ = true; }
  // From now on new connections are forwarded again.
  void Heal() { cut_ = false; }

 private:
  struct Link {
    int client = -1;
    int server = -1;  // -1: it was accepted while the network was cut
    bool silent = false;
    std::chrono::steady_clock::time_point open;  // forwarded from then on
  };
  void Run();
  void Accept();
  void Close(Link* link);
  static bool Forward(int from, int to);  // false: that side has ended

  const int target_port_;
  const std::chrono::milliseconds delay_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> stopped_ = false;
  std::vector<Link> links_;
  std::thread thread_;
};

}  // namespace coat::testing
