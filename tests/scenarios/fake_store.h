// A store in memory whose commits happen when the test says so.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/store/store.h"

namespace coat {

class FakeStore final : public Store {
 public:
  explicit FakeStore(std::function<void(const std::string&)> print) : print_(std::move(print)) {}

  // Commits what waits and prints its events; with a full disk everything fails.
  // Returns whether anything was committed or refused.
  bool Pump();
  void SetFull(bool full) { full_ = full; }
  // What a coordinator would find after a crash now: changes that wait are lost.
  LoadedState Crash();

  void Commit(JobChange change, StoreDone done) override;
  void Remove(std::vector<int64_t> sequences, StoreDone done) override;
  void ReadJob(int64_t sequence, std::function<void(Result<coatrack::v1::JobRow>)> done) override;
  void ReadJobs(std::vector<int64_t> sequences,
                std::function<void(Result<std::vector<coatrack::v1::JobRow>>)> done) override;
  void ReadEvents(int64_t sequence, int64_t after, int32_t limit,
                  std::function<void(Result<std::vector<coatrack::v1::JobEvent>>)> done) override;
  CommitStats Stats() const override { return {}; }

  const std::map<int64_t, coatrack::v1::JobRow>& rows() const { return rows_; }

 private:
  void Apply(const JobChange& change);

  std::function<void(const std::string&)> print_;
  std::deque<std::pair<JobChange, StoreDone>> waiting_;
  std::map<int64_t, coatrack::v1::JobRow> rows_;
  std::map<int64_t, std::map<int64_t, coatrack::v1::JobEvent>> events_;
  int64_t epoch_ = 0;
  bool full_ = false;
};

}  // namespace coat
