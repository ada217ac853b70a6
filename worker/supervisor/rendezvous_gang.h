// The rendezvous values of one attempt: what its local ranks put and still wait for, on its way to
// and from the coordinator (PROTOCOLS.md section 3).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "coatrack/v1/worker_service.grpc.pb.h"
#include "worker/supervisor/coordinator_channel.h"

namespace coat {

// Thread-safe; forwards on a thread of its own. Puts are repeated until the coordinator has them,
// and all of them again after PutAgain(). A value put by a local rank answers a local get directly.
class RendezvousGang {
 public:
  // Called without locks, on any thread.
  using OnValue = std::function<void(const std::string& key, const std::string& value)>;

  RendezvousGang(std::string job_id, int attempt, std::shared_ptr<grpc::Channel> channel,
                 OnValue on_value);
  ~RendezvousGang();
  RendezvousGang(const RendezvousGang&) = delete;
  RendezvousGang& operator=(const RendezvousGang&) = delete;

  void Put(const std::string& key, const std::string& value);
  // on_value is called for the key once its value is known (at once if it is already).
  void Get(const std::string& key);
  // The coordinator has been restarted and forgot every value.
  void PutAgain();

 private:
  void Run();
  bool SendPuts(std::unique_lock<std::mutex>* lock);
  bool AskGets(std::unique_lock<std::mutex>* lock);

  const std::string job_id_;
  const int attempt_;
  const std::unique_ptr<coatrack::v1::WorkerService::Stub> stub_;
  const OnValue on_value_;
  CallSlot put_slot_;
  CallSlot get_slot_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  uint64_t generation_ = 0;                   // of PutAgain()
  std::map<std::string, std::string> known_;  // put here, or answered
  std::set<std::string> own_;                 // keys put here
  std::set<std::string> unsent_;              // of own_
  std::set<std::string> wanted_;              // got by no one yet
  std::thread thread_;
};

}  // namespace coat
