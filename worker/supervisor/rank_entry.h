// One rank on this worker: what its files say, and what was asked of it. Not thread-safe; the
// Supervisor's lock guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"
#include "configs/base/clock.h"
#include "worker/supervisor/rank_metrics.h"
#include "worker/supervisor/reconcile.h"
#include "worker/supervisor/storage_roots.h"

namespace coat {

// What the other threads did or are to do about a rank's streams.
struct RankStreams {
  int64_t records_acknowledged = 0;      // offset in records.jsonl that the coordinator has
  bool records_delivered = false;        // all there will ever be
  int64_t output_acknowledged = 0;       // end of what was pushed of output.log
  std::optional<int64_t> output_demand;  // somebody follows, from this offset
  bool output_delivered = false;         // the tail was pushed

  // A demand of the coordinator, repeated with every answer. While it lies between the first
  // demand and what was pushed since, pushing goes on where it is.
  void Demand(std::optional<int64_t> offset);
};

class RankEntry {
 public:
  // An order of the coordinator about to be launched.
  RankEntry(std::string dir, const coatrack::v1::DesiredRank& desired, int64_t now_ms);
  // A directory found at the daemon's start; works with whatever of its files is readable.
  static RankEntry Adopt(const std::string& dir, const RankId& id, int64_t now_ms);

  const RankId& id() const { return id_; }
  const std::string& dir() const { return dir_; }
  const std::string& device() const { return device_; }
  const std::string& root_uuid() const { return root_uuid_; }
  coatrack::v1::RankState state() const { return state_; }
  bool alive() const { return state_ == coatrack::v1::RANK_STATE_RUNNING; }
  // SpawnRank is still to return: files say nothing yet.
  bool launching() const { return launching_; }
  void FinishLaunch() { launching_ = false; }
  // True when `names` differ from the pinned checkpoints last told to the rank (or it isn't known).
  bool Repin(const std::vector<std::string>& names);
  void Fail(const coatrack::v1::RankExit& exit);  // launch failed, or never seen here
  void MarkLost();

  // Looks at the lock, exit.json and new records. True when the coordinator should hear of it soon:
  // it ended, its data manifest appeared, it committed a checkpoint or it took its first step.
  bool Poll(int64_t now_ms);

  // Asks for a stop; a second request can only make it more urgent. Returns what to do at once.
  enum class StopAction { kNone, kAsk, kKill };
  StopAction RequestStop(coatrack::v1::StopMode mode, int64_t grace_ms, const std::string& why,
                         int64_t now_ms);
  bool stop_requested() const { return stop_mode_ != coatrack::v1::STOP_MODE_UNSPECIFIED; }
  coatrack::v1::StopMode stop_mode() const { return stop_mode_; }
  // The grace time is over and it still lives: kill it (again each second).
  bool MustKill(int64_t now_ms);

  void FillReport(int64_t now_ms, coatrack::v1::RankReport* report) const;
  RankSeries Series() const;

  RankStreams streams;

 private:
  RankEntry(std::string dir, RankId id, int64_t now_ms);
  bool ReadNewRecords(int64_t now_ms);
  void Observe(const coatrack::v1::StepRecord& record, int64_t now_ms, bool* urgent);
  void Ended();

  std::string dir_;
  RankId id_;
  std::string device_;
  std::string root_uuid_;
  std::string job_name_;
  std::string recipe_;
  int world_size_ = 1;

  bool launching_ = false;
  std::optional<std::vector<std::string>> pinned_;
  coatrack::v1::RankState state_ = coatrack::v1::RANK_STATE_RUNNING;
  coatrack::v1::RankExit exit_;

  int64_t records_offset_ = 0;  // read so far
  coatrack::v1::Phase phase_ = coatrack::v1::PHASE_LOAD;
  int64_t step_ = 0;
  uint64_t collective_sequence_ = 0;
  int64_t progress_at_ms_;
  RankMetrics metrics_;
  bool has_manifest_ = false;
  coatrack::v1::DataManifest manifest_;

  coatrack::v1::StopMode stop_mode_ = coatrack::v1::STOP_MODE_UNSPECIFIED;
  int64_t kill_at_ms_ = 0;
  bool killed_ = false;
  std::string stop_reason_;
};

}  // namespace coat
