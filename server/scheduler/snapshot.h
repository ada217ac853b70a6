// What the scheduler sees and what it decides. Plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"

namespace coat {

inline constexpr int64_t kNeverMs = std::numeric_limits<int64_t>::max();

struct DeviceView {
  std::string id;
  coatrack::v1::DeviceKind kind = coatrack::v1::DEVICE_KIND_CPU;
  int64_t total_bytes = 0;  // what one rank may use
  int32_t threads = 0;
  bool free = true;
  int64_t frees_at_ms = kNeverMs;  // when not free: latest end of the holder; kNeverMs: unknown
};

struct WorkerView {
  std::string name;
  bool usable = true;           // READY: registered, within its lease, clean, not draining
  bool registered = true;       // counts for "could ever hold": false when drained
  int32_t failed_launches = 0;  // in a row; such workers are taken last
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> roots;  // name -> UUID
  std::vector<DeviceView> devices;
};

struct PendingJob {
  std::string id;
  int64_t sequence = 0;  // submission order
  int32_t priority = 0;  // larger first
  int32_t ranks = 1;
  coatrack::v1::DeviceKind device = coatrack::v1::DEVICE_KIND_AUTO;  // CPU or GPU once placed
  int64_t cpu_bytes = 0;  // predicted for the largest rank
  int64_t gpu_bytes = 0;
  std::string root;             // name
  std::string root_uuid;        // fixed by an earlier attempt; empty: any of that name
  std::string storage_problem;  // not empty: waits with STORAGE_UNREACHABLE and this sentence
  std::map<std::string, std::string> labels;  // a worker must carry all of them
  int64_t time_limit_ms = 0;                  // what is left of it; 0: none
  int64_t not_before_ms = 0;                  // back-off
};

struct Snapshot {
  int64_t now_ms = 0;
  bool reconciling = false;  // after a start, until workers have reported: nothing is placed
  std::vector<WorkerView> workers;
  std::vector<PendingJob> jobs;  // in any order
};

struct PlacedRank {
  std::string worker;
  std::string device;
  int32_t threads = 0;
};
struct Placement {
  std::string job;
  coatrack::v1::DeviceKind device = coatrack::v1::DEVICE_KIND_CPU;
  std::string root_uuid;
  std::vector<PlacedRank> ranks;  // rank r at [r]
};
struct Waiting {
  std::string job;
  coatrack::v1::PendingReason reason = coatrack::v1::PENDING_REASON_QUEUED;
  std::string message;
};
struct Reservation {
  std::string job;                   // the head; empty: none
  int64_t start_ms = kNeverMs;       // earliest start; kNeverMs: unknown
  std::vector<std::string> workers;  // kept for it
};
struct Decision {
  std::vector<Placement> placements;
  std::vector<Waiting> waiting;
  Reservation reservation;
};

}  // namespace coat
