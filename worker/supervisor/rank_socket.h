// The Unix socket of the daemon: rendezvous and stop requests of its ranks, a line of JSON each way
// (worker/trainer/rank_protocol.h).
#pragma once

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "worker/supervisor/rendezvous_gang.h"
#include "worker/supervisor/supervisor.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {

inline constexpr int kMaxConnections = 256;

// Thread-safe. One thread reads; no write waits: a rank that doesn't read its socket loses the
// connection and says hello again when it does.
class RankSocket {
 public:
  // Binds `path` (readable by this user alone), replacing what an earlier daemon left there. kIo;
  // kInvalidArgument when the path is longer than a socket's name can be (107 bytes).
  static Result<std::unique_ptr<RankSocket>> Listen(const std::string& path, Supervisor* supervisor,
                                                    std::shared_ptr<grpc::Channel> channel);
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

  // False when the rank is not connected.
  bool SendStop(const RankId& id, coatrack::v1::StopMode mode);
  // The coordinator has been restarted: every value is put again.
  void PutAgain();
  // Drops the values of attempts that have no living rank here.
  void DropGoneGangs();

 private:
  using Gang = std::pair<std::string, int>;  // job, attempt
  struct Connection {
    std::string input;  // an unfinished line
    bool greeted = false;
    RankId id;                     // once greeted
    std::set<std::string> wanted;  // keys it got no value for yet
  };

  RankSocket(std::string path, int listen_fd, int wake_fd, Supervisor* supervisor,
             std::shared_ptr<grpc::Channel> channel);
  void Run();
  void AcceptOne();
  bool Read(int fd);  // false: close it
  bool Handle(int fd, const std::string& line);
  bool Greet(int fd, const RankMessage& message);
  std::shared_ptr<RendezvousGang> GangOf(const Gang& gang);
  void Deliver(const Gang& gang, const std::string& key, const std::string& value);
  std::vector<int> Descriptors();
  void Drop(int fd);

  const std::string path_;
  const int listen_fd_;
  const int wake_fd_;
  Supervisor* const supervisor_;
  const std::shared_ptr<grpc::Channel> channel_;

  std::mutex mutex_;  // never held while calling the supervisor or a gang
  std::map<int, Connection> connections_;
  std::map<Gang, std::shared_ptr<RendezvousGang>> gangs_;
  std::thread thread_;
};

}  // namespace coat
