// Durable state of the coordinator. SQLite is behind it (sqlite_store.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job_row.pb.h"
#include "configs/base/status.h"

namespace coat {

// A job's row and its new events: stored whole or not at all.
struct JobChange {
  coatrack::v1::JobRow row;
  std::vector<coatrack::v1::JobEvent> events;
};

// What is held in memory of a finished job; the row stays in the database.
struct FinishedJob {
  int64_t sequence = 0;
  std::string id;
  std::string name;
  std::string request_id;
  std::string request_hash;
  coatrack::v1::JobState state = coatrack::v1::JOB_STATE_UNSPECIFIED;
  int64_t finished_ms = 0;  // wall
  std::map<std::string, std::string> labels;
};
FinishedJob Summarize(const coatrack::v1::JobRow& row);

struct LoadedState {
  int64_t epoch = 0;  // of this start, already durable
  std::string cluster_id;
  std::string refusal;  // not empty: do not schedule, and why (empty database, cluster id file)
  int64_t last_sequence = 0;               // of any job
  std::vector<coatrack::v1::JobRow> live;  // by sequence
  std::vector<FinishedJob> finished;       // by sequence
  std::vector<std::string> skipped;        // corrupt rows, named
};

struct CommitStats {
  int64_t commits = 0;
  int64_t changes = 0;
  int64_t failures = 0;
  double seconds_total = 0;
  std::vector<int64_t> buckets;  // counts per kCommitBounds, one more at the end
};
inline constexpr double kCommitBounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01,
                                           0.025,  0.05,  0.1,   0.25,  1.0};

using StoreDone = std::function<void(const Status&)>;

// Thread-safe; no call blocks on the disk. Callbacks come from the store's threads, in the order
// of the calls for Commit and Remove; they must not call back into ~Store.
class Store {
 public:
  virtual ~Store() = default;

  // `done` after the change is on disk, or with why it is not (kResourceExhausted: disk full;
  // kAlreadyExists: another job has this request id). Changes that wait together share one commit;
  // one that breaks a constraint fails alone. Events are replaced by sequence, so that a failed
  // change can be sent again.
  virtual void Commit(JobChange change, StoreDone done) = 0;
  // Deletes jobs with their events.
  virtual void Remove(std::vector<int64_t> sequences, StoreDone done) = 0;

  // Errors: kNotFound; kDataLoss naming the row.
  virtual void ReadJob(int64_t sequence,
                       std::function<void(Result<coatrack::v1::JobRow>)> done) = 0;
  // Rows that exist and are sound, in the order asked.
  virtual void ReadJobs(std::vector<int64_t> sequences,
                        std::function<void(Result<std::vector<coatrack::v1::JobRow>>)> done) = 0;
  virtual void ReadEvents(
      int64_t sequence, int64_t after, int32_t limit,
      std::function<void(Result<std::vector<coatrack::v1::JobEvent>>)> done) = 0;

  virtual CommitStats Stats() const = 0;
};

inline constexpr int64_t kMaxEventsPerJob = 1000;  // older ones are dropped

}  // namespace coat
