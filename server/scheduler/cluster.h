// The workers of one scheduling pass, indexed. Free devices only ever become fewer in a pass.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/scheduler/snapshot.h"

namespace coat {

inline constexpr int kDeviceKinds = coatrack::v1::DeviceKind_ARRAYSIZE;
using DeviceIndex = std::pair<int, int>;  // (worker, device) in the snapshot

// What one gang needs of one kind of device.
struct Need {
  coatrack::v1::DeviceKind kind = coatrack::v1::DEVICE_KIND_CPU;
  int32_t ranks = 1;
  int64_t bytes = 0;  // of each device
};

// Workers a job may use: same labels, one storage root. Sharing one Group makes a full queue cheap.
struct Group {
  std::string root_uuid;
  std::vector<int> workers;  // indexes into the snapshot
  // Needs that failed in this pass, per kind: free devices only become fewer, so a larger need
  // fails as well.
  struct Failed {
    int32_t ranks;
    int64_t bytes;
    bool unreserved;  // only workers outside the reservation were allowed
  };
  std::array<std::vector<Failed>, kDeviceKinds> failed;
  // Totals of all devices of a kind, descending: registered ones, and those of usable workers.
  std::array<std::vector<int64_t>, kDeviceKinds> registered_totals;
  std::array<std::vector<int64_t>, kDeviceKinds> usable_totals;
};

class Cluster {
 public:
  explicit Cluster(const Snapshot& snapshot);

  // One group per UUID that `job` may use (every UUID its root's name has among the workers with
  // its labels, or the fixed one), by descending number of workers. Empty: nobody sees the root.
  // The pointers live as long as the cluster.
  const std::vector<Group*>& Groups(const PendingJob& job);
  // Workers that carry the job's labels, whatever they see.
  int64_t LabelledWorkers(const PendingJob& job) const;

  // Whether the group's workers hold the need when idle.
  static bool FitsIdle(const Group& group, const Need& need, bool usable_only);
  // Free devices for the need; `unreserved` leaves reserved workers out. Empty: they don't suffice.
  std::vector<DeviceIndex> Find(Group* group, const Need& need, bool unreserved);
  struct FreeCount {
    int64_t any = 0;       // free devices of the kind
    int64_t fitting = 0;   // of those, large enough
    int64_t reserved = 0;  // of the fitting ones, on reserved workers
  };
  FreeCount CountFree(const Group& group, const Need& need) const;

  // `until_ms`: when they are free again at the latest; kNeverMs: unknown.
  void Take(const std::vector<DeviceIndex>& devices, int64_t until_ms);
  // Reserves the workers whose devices are free earliest. Returns the start, kNeverMs if unknown.
  int64_t Reserve(const Group& group, const Need& need);
  std::vector<std::string> ReservedWorkers() const;

 private:
  struct Candidate {
    int worker;
    int fitting;
    int failed_launches;
  };

  int FreeFitting(int worker, const Need& need) const;
  // Candidates in the order they are filled up.
  static std::vector<Candidate> Pack(std::vector<Candidate> candidates, int32_t ranks);
  std::vector<DeviceIndex> PickDevices(const std::vector<Candidate>& hosts, const Need& need) const;

  const Snapshot& snapshot_;
  std::vector<std::vector<char>> free_;                    // [worker][device]
  std::vector<std::vector<int64_t>> free_at_ms_;           // [worker][device]
  std::vector<std::array<int, kDeviceKinds>> free_count_;  // [worker][kind]
  std::vector<char> reserved_;                             // [worker]
  std::map<std::string, std::vector<Group*>> by_constraint_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace coat
