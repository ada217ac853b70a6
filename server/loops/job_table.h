// Every job the coordinator keeps: live ones with their record, finished ones as a line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "configs/base/status.h"
#include "server/jobs/job_record.h"
#include "server/store/store.h"

namespace coat {

// Not thread-safe. References stay valid until the job is removed or finished.
class JobTable {
 public:
  struct Known {
    int64_t sequence = 0;
    std::string id;
    std::string request_hash;
  };

  JobRecord* Add(JobRecord record);
  void AddFinished(FinishedJob job);
  // The record leaves memory, its line stays.
  void Finish(int64_t sequence);
  // Forgets the job altogether.
  void Remove(int64_t sequence);

  // An id, a prefix of exactly one id (at least 4 characters), or the name of the newest job so
  // called. Errors: kNotFound, kInvalidArgument for a prefix of several.
  Result<Known> Resolve(const std::string& reference) const;
  const Known* FindRequest(const std::string& request_id) const;

  JobRecord* Live(int64_t sequence);
  const JobRecord* Live(int64_t sequence) const;
  JobRecord* LiveById(const std::string& id);
  const JobRecord* LiveById(const std::string& id) const;
  const FinishedJob* Finished(int64_t sequence) const;

  std::map<int64_t, JobRecord>& live() { return live_; }
  const std::map<int64_t, JobRecord>& live() const { return live_; }
  const std::map<int64_t, FinishedJob>& finished() const { return finished_; }
  const std::map<coatrack::v1::JobState, int64_t>& finished_by_state() const {
    return finished_by_state_;
  }

 private:
  void Index(const FinishedJob& job);
  void Keep(FinishedJob job);

  std::map<int64_t, JobRecord> live_;
  std::map<int64_t, FinishedJob> finished_;
  std::map<coatrack::v1::JobState, int64_t> finished_by_state_;
  std::map<std::string, int64_t> by_id_;
  std::map<std::string, int64_t> newest_by_name_;
  std::unordered_map<std::string, Known> by_request_;
};

}  // namespace coat
