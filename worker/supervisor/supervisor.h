// The daemon's heart without its network: the ranks of this worker, what the coordinator wants of
// them, and what there is to report (PROTOCOLS.md sections 1 and 2).
//
// Thread-safe. A rank is only ever killed because the coordinator said so, its grace time is over,
// or the daemon drains; silence kills nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "configs/base/clock.h"
#include "worker/supervisor/checkpoint_listing.h"
#include "worker/supervisor/identity.h"
#include "worker/supervisor/rank_entry.h"
#include "worker/supervisor/rank_launcher.h"
#include "worker/supervisor/reconcile.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {

// Rank folders a worker keeps at once; a launch beyond it fails (acknowledged ones are removed).
inline constexpr int kMaxRankDirs = 1024;

class Supervisor {
 public:
  // Both outlive the supervisor.
  Supervisor(LaunchContext context, StateDir* state, const Clock* clock);

  // ---- wiring, before any thread runs -----------------------------------------------------------
  // Asks a rank to stop through the socket; false when it is not connected.
  using SendStop = std::function<bool(const RankId&, coatrack::v1::StopMode)>;
  void set_send_stop(SendStop send_stop) { send_stop_ = std::move(send_stop); }
  // Called without locks when the coordinator should hear of something soon.
  void set_on_urgent(std::function<void()> on_urgent) { on_urgent_ = std::move(on_urgent); }
  // The coordinator has been restarted: it forgot what only its memory held.
  void set_on_new_epoch(std::function<void()> on_new_epoch) {
    on_new_epoch_ = std::move(on_new_epoch);
  }
  // Device -> job of processes that outlived what is known of their rank.
  using DeviceRemnants = std::function<std::map<std::string, std::string>()>;
  void set_device_remnants(DeviceRemnants remnants) { device_remnants_ = std::move(remnants); }
  // Takes over every rank directory below the state directory; returns how many.
  int Adopt();

  // ---- the two directions; called by one thread -------------------------------------------------
  // Fills ranks, checkpoints, epoch, applied_revision, draining.
  void FillReport(coatrack::v1::SyncRequest* request);
  // False when the response comes from a coordinator that has been replaced: nothing was done.
  bool Apply(const coatrack::v1::SyncResponse& response);

  // ---- time -------------------------------------------------------------------------------------
  // Looks at every rank's files, ends those whose grace is over. Called about ten times a second.
  void Poll();

  // ---- drain ------------------------------------------------------------------------------------
  // From now on nothing is launched and every rank is asked to checkpoint and stop.
  void Drain(const std::string& reason, int64_t grace_ms);
  bool draining() const;
  int alive() const;
  int unacknowledged() const;

  // ---- streams ----------------------------------------------------------------------------------
  struct StreamWork {
    RankId id;
    std::string dir;
    bool alive = false;
    RankStreams streams;
  };
  std::vector<StreamWork> Streams() const;
  // Changes a rank's streams under the lock; nothing when it is gone. Then wakes the sync when all
  // of an ended rank has been delivered.
  void UpdateStreams(const RankId& id, const std::function<void(RankStreams*)>& change);
  std::optional<coatrack::v1::StopMode> PendingStop(const RankId& id) const;
  bool IsAlive(const RankId& id) const;
  bool HasAttempt(const std::string& job_id, int attempt) const;  // any rank alive

  std::vector<RankSeries> Series() const;
  // The job that holds a device: by a living rank, or a process left on it. Not listed: free.
  std::map<std::string, std::string> DeviceHolders() const;

 private:
  struct Todo {  // what is done after the lock is released
    std::vector<coatrack::v1::DesiredRank> launch;
    std::vector<std::pair<RankId, coatrack::v1::StopMode>> ask;
    std::vector<std::string> kill_dirs;
    std::vector<std::pair<std::string, std::vector<std::string>>> pin;  // folder, names
    std::vector<RankDirEntry> remove;
  };
  void Stop(RankEntry* entry, coatrack::v1::StopMode mode, int64_t grace_ms, const std::string& why,
            Todo* todo);
  void PrepareLaunches(std::vector<coatrack::v1::DesiredRank> launches, Todo* todo);
  void SetDemands(const coatrack::v1::SyncResponse& response, bool new_epoch);
  void Forget(const RankId& id, Todo* todo);
  void Carry(const Todo& todo);
  void Launch(const coatrack::v1::DesiredRank& desired);
  void Ask(const RankId& id, coatrack::v1::StopMode mode);
  void FailLaunch(const RankId& id, const std::string& why);

  std::string DirOf(const RankId& id) const;

  const LaunchContext context_;
  StateDir* const state_;
  const Clock* const clock_;
  SendStop send_stop_;
  std::function<void()> on_urgent_;
  std::function<void()> on_new_epoch_;
  DeviceRemnants device_remnants_;
  CheckpointListing checkpoints_;  // of the thread that fills reports

  mutable std::mutex mutex_;
  std::map<RankId, RankEntry> ranks_;
  std::set<RankId> forgotten_;  // never launched again; bounded, oldest ids first out
  std::deque<RankId> forgotten_order_;
  uint64_t applied_revision_ = 0;
  bool draining_ = false;
  std::string drain_reason_;
};

}  // namespace coat
