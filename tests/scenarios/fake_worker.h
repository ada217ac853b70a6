// A worker daemon without processes: it launches, stops, kills and reports as PROTOCOLS.md says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"

namespace coat {

class FakeWorker {
 public:
  using Key = std::tuple<std::string, int32_t, int32_t>;  // job, attempt, rank

  FakeWorker(std::string name, int devices, std::string root_uuid,
             std::map<std::string, std::string> labels);

  coatrack::v1::SyncRequest Report() const;
  // Launches what is new, saves and stops what is asked to, kills what is not listed, forgets what
  // was acknowledged. A lower epoch is refused.
  void Apply(const coatrack::v1::SyncResponse& response);

  void Exit(const Key& key, coatrack::v1::Reason reason);
  void Restart(bool remembers);  // a new incarnation; the ranks live on if it remembers them
  void Progress(const std::string& job, int64_t step);
  void AddCheckpoint(const std::string& job, int64_t step, int32_t attempt);
  void Age(double seconds);  // time without progress
  // Repeats an exit that nobody expects any more.
  void ReportOldExit(const Key& key);

  const std::string& name() const { return name_; }
  // "job-1.2 rank 0 from step-10.attempt-1", sorted.
  std::vector<std::string> Running() const;
  bool Runs(const Key& key) const;

  bool silent = false;   // no report reaches the coordinator
  bool holding = false;  // answers do not reach the worker
  bool draining = false;

 private:
  struct Rank {
    coatrack::v1::RankReport report;
    std::string resume;
  };
  Rank* Find(const Key& key);

  std::string name_;
  int devices_;
  std::string root_uuid_;
  std::map<std::string, std::string> labels_;
  int incarnation_ = 1;
  int64_t epoch_ = 0;
  uint64_t applied_revision_ = 0;
  std::map<Key, Rank> ranks_;
  std::vector<coatrack::v1::Checkpoint> checkpoints_;
};

}  // namespace coat
