// The rank's end of the daemon's socket: rendezvous values and requests to stop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "coatrack/v1/events.pb.h"
#include "worker/collectives/collectives.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {

// Connects in the background and again whenever the daemon comes back: says hello, puts its values
// again and repeats gets not yet answered. A daemon that is away only delays. Thread-safe.
class SocketStore final : public RendezvousStore {
 public:
  // `stop` is set when the daemon asks for a checkpoint and a stop; a stop at once ends the process
  // by SIGKILL. Error(kInvalidArgument) when the path does not fit into a socket address.
  SocketStore(const coatrack::v1::RankLaunch& launch, std::atomic<bool>* stop);
  ~SocketStore() override;

  void Put(const std::string& key, const std::string& value) override;
  // Error(kStopped) when asked to stop meanwhile.
  std::string Get(const std::string& key, int timeout_ms) override;

 private:
  void Run();
  bool Connect();       // and says what the daemon must know
  void ReadMessages();  // until the connection or this object ends
  void Handle(const RankMessage& message);
  void SendLocked(const RankMessage& message);
  void Disconnect();
  bool WaitOrQuit(int milliseconds);

  const std::string path_;
  const RankMessage hello_;
  std::atomic<bool>* const stop_;
  int wake_fd_ = -1;  // readable once the thread must end
  std::mutex mutex_;
  std::condition_variable arrived_;
  int fd_ = -1;
  std::map<std::string, std::string> puts_;
  std::map<std::string, std::string> values_;
  std::set<std::string> gets_;  // not yet answered
  std::thread thread_;
};

}  // namespace coat
