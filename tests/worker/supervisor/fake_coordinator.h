// A coordinator in the test's process: says what it is told to say, remembers what it hears.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.grpc.pb.h"
#include "worker/supervisor/reconcile.h"

namespace coat::testing {

class FakeCoordinator {
 public:
  struct RankLog {
    std::string data;  // in the order of offsets
    int64_t end = 0;
    bool final = false;
    bool truncated = false;
    int64_t largest_push = 0;
  };
  struct Seen {
    int syncs = 0;
    coatrack::v1::SyncRequest last;                    // newest report
    std::map<RankId, coatrack::v1::RankReport> ranks;  // newest report of each rank ever reported
    std::map<RankId, std::vector<coatrack::v1::StepRecord>> records;
    std::map<RankId, int64_t> record_pushes;
    std::map<RankId, RankLog> logs;
    std::map<std::string, std::string> rendezvous;  // job/attempt/key -> value
    int puts = 0;
  };

  FakeCoordinator();  // listening, epoch 1, wants nothing
  ~FakeCoordinator();
  FakeCoordinator(const FakeCoordinator&) = delete;
  FakeCoordinator& operator=(const FakeCoordinator&) = delete;

  std::string address() const;

  // ---- life
  // ---------------------------------------------------------------------------------------
  void Stop();   // connections end, nobody listens
  void Start();  // the same port again, the same epoch
  void Restart() { Stop(), SetEpoch(epoch() + 1), Forget(), Start(); }
  int64_t epoch() const;
  void SetEpoch(int64_t epoch);
  void Forget();  // what only memory holds: rendezvous values

  // ---- orders; each makes a new revision
  // -----------------------------------------------------------
  void Want(const coatrack::v1::DesiredRank& rank);
  void Unwant(const RankId& id);
  void StopRank(const RankId& id, coatrack::v1::StopMode mode, int grace_seconds);
  void Follow(const RankId& id, int64_t offset);
  void Unfollow(const RankId& id);
  // Ends are acknowledged once their logs are delivered (default), or never.
  void SetAcknowledge(bool acknowledge);

  // ---- knowledge
  // ------------------------------------------------------------------------------------
  Seen seen() const;
  // False after 20 s.
  bool WaitFor(const std::function<bool(const Seen&)>& condition) const;
  bool WaitForState(const RankId& id, coatrack::v1::RankState state) const;
  // The worker has applied the newest orders.
  bool WaitApplied() const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace coat::testing
