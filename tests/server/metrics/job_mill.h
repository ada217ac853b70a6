// A coordinator without network or database that simulated workers feed with short jobs, and what
// it costs: series, memory, processor time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/loops/coordinator.h"
#include "tests/scenarios/fake_worker.h"
#include "tests/support/manual_clock.h"
#include "tests/support/process.h"

namespace coat::testing {

// Confirms every change and keeps none. Thread-safe.
class ForgetfulStore final : public Store {
 public:
  bool Pump();  // whether anything waited
  void Commit(JobChange change, StoreDone done) override;
  void Remove(std::vector<int64_t> sequences, StoreDone done) override;
  void ReadJob(int64_t sequence, std::function<void(Result<coatrack::v1::JobRow>)> done) override;
  void ReadJobs(std::vector<int64_t> sequences,
                std::function<void(Result<std::vector<coatrack::v1::JobRow>>)> done) override;
  void ReadEvents(int64_t sequence, int64_t after, int32_t limit,
                  std::function<void(Result<std::vector<coatrack::v1::JobEvent>>)> done) override;
  CommitStats Stats() const override { return {}; }

 private:
  std::mutex mutex_;
  std::deque<StoreDone> waiting_;
};

struct Footprint {
  size_t series = 0;          // on both pages
  double scrape_seconds = 0;  // processor time of rendering and printing both, the best of some
  int64_t heap_bytes = 0;     // in use
};

class JobMill {
 public:
  // `retained`: finished jobs that are kept; `finished` of them are there from the start.
  explicit JobMill(int32_t retained, int finished = 0);
  ~JobMill();

  // Submits one-rank jobs that train a step and end, to the end of the last one. Returns the
  // processor time of one job in seconds.
  double Run(int jobs);
  void Advance(int64_t ms) { clock_.now_ms += ms; }
  Footprint Measure();
  Coordinator* coordinator() { return coordinator_.get(); }

 private:
  void Submit(int jobs);
  void SyncAll();
  void PushRecords();
  void Round(int submit);

  TempDir dir_;
  ManualClock clock_;
  ForgetfulStore store_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::atomic<int> pushes_ = 0;  // that wait for the disk
  int64_t ids_ = 0;
};

}  // namespace coat::testing
