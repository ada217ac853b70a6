// Reported state up, desired state down, for as long as the daemon lives (PROTOCOLS.md section 2).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include "coatrack/v1/worker_service.grpc.pb.h"
#include "worker/supervisor/coordinator_channel.h"
#include "worker/supervisor/supervisor.h"

namespace coat {

// Milliseconds to wait after `failures` failed calls in a row: 0 after the first, then uniform
// below a bound that doubles from 500 ms to kReconnectSpreadMs, so that a restarted coordinator
// meets its workers spread out. `uniform` is in [0, 1).
int ReconnectDelayMs(int failures, double uniform);

class SyncLoop {
 public:
  // `fixed` carries what never changes: worker, incarnation, addresses, version, devices, roots,
  // labels.
  SyncLoop(Supervisor* supervisor, std::shared_ptr<grpc::Channel> channel,
           coatrack::v1::SyncRequest fixed);

  // Returns after Close(). One thread.
  void Run();
  void Close();
  // Something should be reported soon: a waiting call is given up and made again.
  void Wake();
  // The last call was answered.
  bool connected() const { return connected_; }

 private:
  grpc::Status Once(coatrack::v1::SyncResponse* response);
  void Failed(const grpc::Status& status);
  void Wait(int ms);

  Supervisor* const supervisor_;
  const std::unique_ptr<coatrack::v1::WorkerService::Stub> stub_;
  const coatrack::v1::SyncRequest fixed_;
  CallSlot slot_;
  std::mt19937 random_;
  int failures_ = 0;
  std::atomic<bool> connected_ = false;

  std::mutex mutex_;
  std::condition_variable closed_changed_;
  bool closed_ = false;
};

}  // namespace coat
