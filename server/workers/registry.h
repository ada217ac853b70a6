// The workers, by name: who is there, under which incarnation, and until when we believe it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"
#include "configs/base/status.h"

namespace coat {

struct LeaseOptions {
  int64_t lease_ms = 15'000;
  int64_t lost_after_ms = 60'000;        // after the lease has ended
  int64_t forget_after_ms = 86'400'000;  // a lost worker leaves the list
  int32_t max_workers = 2000;
  int32_t max_failed_launches = 3;  // in a row; then the worker is drained
};

struct WorkerRecord {
  std::string name;
  std::string incarnation;          // empty: named by a row, has not reported yet
  std::deque<std::string> retired;  // earlier incarnations, newest last, at most 16
  coatrack::v1::WorkerState state = coatrack::v1::WORKER_STATE_CLEANING;
  std::string message;          // why the state is not READY
  int64_t heard_ms = 0;         // steady
  int64_t silent_since_ms = 0;  // steady: when it became UNREACHABLE
  bool lost = false;            // its gangs were given up
  bool clean = false;           // reported nothing but what is desired since it (re)joined
  bool draining = false;        // says so itself
  std::string drained_reason;   // too many failed launches; until its next incarnation
  int32_t failed_launches = 0;  // in a row
  std::string address;
  std::string metrics_address;
  std::string version;
  std::vector<coatrack::v1::Device> devices;
  std::vector<coatrack::v1::StorageRoot> roots;
  std::map<std::string, std::string> labels;
  std::set<std::string> busy_devices;  // with a running rank, or not clean, in the last report
  std::set<std::string> jobs;          // ids of live jobs with ranks placed here
  uint64_t revision = 0;               // of the desired state
  uint64_t applied_revision = 0;       // last reported
  uint64_t sent_revision = 0;          // last answered, to this incarnation
};

struct RegistryEvent {
  std::string worker;
  bool lost = false;  // lost_after passed; else: became UNREACHABLE
};

// Not thread-safe. Steady milliseconds come from the caller.
class Registry {
 public:
  explicit Registry(LeaseOptions options) : options_(options) {}

  // A worker that a live row names; it has a full lease to report.
  void Expect(const std::string& name, int64_t now_ms);

  // Registers or renews. `fresh` is true for a new incarnation or a return after silence.
  // Errors: kInvalidArgument (no name, no incarnation, duplicate device), kAborted (a retired
  // incarnation), kResourceExhausted (too many workers).
  struct Heard {
    WorkerRecord* worker = nullptr;
    bool fresh = false;
  };
  Result<Heard> Hear(const coatrack::v1::SyncRequest& request, int64_t now_ms);

  // After a report was reconciled: `undesired` running ranks are left on the worker.
  void Settle(WorkerRecord* worker, bool undesired);

  // Lease ends and losses up to now, each reported once; forgets workers silent for long that hold
  // no job.
  std::vector<RegistryEvent> Expire(int64_t now_ms);

  void LaunchFailed(const std::string& name);  // drains after max_failed_launches
  void LaunchSucceeded(const std::string& name);

  WorkerRecord* Find(const std::string& name);
  const WorkerRecord* Find(const std::string& name) const;
  const std::map<std::string, WorkerRecord>& workers() const { return workers_; }
  std::map<std::string, WorkerRecord>& workers() { return workers_; }
  const LeaseOptions& options() const { return options_; }

 private:
  void UpdateState(WorkerRecord* worker);

  LeaseOptions options_;
  std::map<std::string, WorkerRecord> workers_;
};

}  // namespace coat
