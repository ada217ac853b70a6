#include "worker/supervisor/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "worker/supervisor/session_kill.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

constexpr size_t kMaxForgotten = 4096;
constexpr char kNotListed[] = "the coordinator no longer wants it on this worker";

}  // namespace

Supervisor::Supervisor(LaunchContext context, StateDir* state, const Clock* clock)
    : context_(std::move(context)),
      state_(state),
      clock_(clock),
      send_stop_([](const RankId&, coatrack::v1::StopMode) { return false; }),
      on_urgent_([] {}),
      on_new_epoch_([] {}),
      checkpoints_(context_.roots, clock) {}

std::string Supervisor::DirOf(const RankId& id) const {
  return RankDir(context_.state_dir, id.job_id, id.attempt, id.rank);
}

int Supervisor::Adopt() {
  const std::lock_guard lock(mutex_);
  for (const RankDirEntry& found : ListRankDirs(context_.state_dir)) {
    const RankId id{found.job_id, found.attempt, found.rank};
    const auto [it, added] =
        ranks_.emplace(id, RankEntry::Adopt(found.path, id, clock_->SteadyMs()));
    if (!added) continue;
    it->second.Poll(clock_->SteadyMs());
    spdlog::info("{} found: {}", ToString(id), it->second.alive() ? "alive" : "ended");
  }
  return static_cast<int>(ranks_.size());
}

void Supervisor::FillReport(coatrack::v1::SyncRequest* request) {
  std::set<std::string> jobs;
  {
    const std::lock_guard lock(mutex_);
    request->set_epoch(state_->epoch());
    request->set_applied_revision(applied_revision_);
    request->set_draining(draining_);
    request->set_drain_reason(drain_reason_);
    for (const auto& [id, entry] : ranks_) {
      entry.FillReport(clock_->SteadyMs(), request->add_ranks());
      if (!entry.root_uuid().empty()) jobs.insert(id.job_id);
    }
  }
  checkpoints_.Fill(jobs, request);
}

bool Supervisor::Apply(const coatrack::v1::SyncResponse& response) {
  Todo todo;
  bool new_epoch = false;
  {
    const std::lock_guard lock(mutex_);
    if (response.epoch() < state_->epoch()) {
      spdlog::warn("refused an order of epoch {}: epoch {} has been seen", response.epoch(),
                   state_->epoch());
      return false;
    }
    new_epoch = response.epoch() > state_->epoch();
    if (const Status status = state_->RaiseEpoch(response.epoch()); !status.ok()) {
      spdlog::error("{}", status.message());
    }
    ActualRanks actual;
    actual.forgotten = forgotten_;
    for (const auto& [id, entry] : ranks_) (entry.alive() ? actual.alive : actual.ended).insert(id);
    RankActions actions = Reconcile(response, actual);
    for (const RankId& id : actions.forget) Forget(id, &todo);
    for (const auto& stop : actions.stop) {
      Stop(&ranks_.at(ToRankId(stop.key())), stop.stop(), stop.grace_seconds() * 1000LL,
           "the coordinator asked for it", &todo);
    }
    for (const auto& kept : actions.keep) {
      RankEntry& entry = ranks_.at(ToRankId(kept.key()));
      std::vector<std::string> names(kept.pinned().begin(), kept.pinned().end());
      if (entry.Repin(names)) todo.pin.emplace_back(entry.dir(), std::move(names));
    }
    for (const RankId& id : actions.kill) {
      Stop(&ranks_.at(id), coatrack::v1::STOP_MODE_NOW, 0, kNotListed, &todo);
    }
    for (const RankId& id : actions.report_lost) {
      RankEntry lost = RankEntry::Adopt(DirOf(id), id, clock_->SteadyMs());
      lost.MarkLost();
      ranks_.emplace(id, std::move(lost));
    }
    PrepareLaunches(std::move(actions.launch), &todo);
    SetDemands(response, new_epoch);
  }
  checkpoints_.Confirm();
  if (new_epoch) {
    checkpoints_.Forget();
    on_new_epoch_();
  }
  Carry(todo);
  const std::lock_guard lock(mutex_);
  applied_revision_ = response.revision();
  return true;
}

void Supervisor::SetDemands(const coatrack::v1::SyncResponse& response, bool new_epoch) {
  std::map<RankId, int64_t> demands;
  for (const auto& demand : response.logs()) demands[ToRankId(demand.key())] = demand.offset();
  for (auto& [id, entry] : ranks_) {
    if (new_epoch) entry.streams.Demand(std::nullopt);
    const auto it = demands.find(id);
    entry.streams.Demand(it == demands.end() ? std::nullopt : std::optional(it->second));
  }
}

void Supervisor::Stop(RankEntry* entry, coatrack::v1::StopMode mode, int64_t grace_ms,
                      const std::string& why, Todo* todo) {
  switch (entry->RequestStop(mode, grace_ms, why, clock_->SteadyMs())) {
    case RankEntry::StopAction::kNone: break;
    case RankEntry::StopAction::kAsk: todo->ask.emplace_back(entry->id(), mode); break;
    case RankEntry::StopAction::kKill:
      if (entry->MustKill(clock_->SteadyMs())) todo->kill_dirs.push_back(entry->dir());
      break;
  }
}

void Supervisor::PrepareLaunches(std::vector<coatrack::v1::DesiredRank> launches, Todo* todo) {
  for (coatrack::v1::DesiredRank& desired : launches) {
    const RankId id = ToRankId(desired.key());
    ranks_.emplace(id, RankEntry(DirOf(id), desired, clock_->SteadyMs()));
    todo->launch.push_back(std::move(desired));
  }
}

void Supervisor::Forget(const RankId& id, Todo* todo) {
  todo->remove.push_back({ranks_.at(id).dir(), id.job_id, id.attempt, id.rank});
  ranks_.erase(id);
  if (!forgotten_.insert(id).second) return;
  forgotten_order_.push_back(id);
  if (forgotten_order_.size() <= kMaxForgotten) return;
  forgotten_.erase(forgotten_order_.front());
  forgotten_order_.pop_front();
}

void Supervisor::Carry(const Todo& todo) {
  for (const RankDirEntry& entry : todo.remove) {
    const Status status = RemoveRankDir(context_.state_dir, entry);
    if (!status.ok()) spdlog::warn("{}", status.message());
  }
  for (const std::string& dir : todo.kill_dirs) {
    const Status status = KillRank(dir);
    spdlog::info("killed {}{}", dir, status.ok() ? "" : ": " + status.message());
  }
  for (const auto& [dir, names] : todo.pin) {
    const Status status = WritePinned(dir, names);
    if (!status.ok()) spdlog::warn("{}", status.message());
  }
  for (const auto& [id, mode] : todo.ask) Ask(id, mode);
  for (const auto& desired : todo.launch) Launch(desired);
}

void Supervisor::Ask(const RankId& id, coatrack::v1::StopMode mode) {
  spdlog::info("{}: asked to stop", ToString(id));
  if (send_stop_(id, mode)) return;
  const Status status = SignalRank(DirOf(id), SIGTERM);
  if (!status.ok()) spdlog::warn("{}", status.message());
}

void Supervisor::Launch(const coatrack::v1::DesiredRank& desired) {
  const RankId id = ToRankId(desired.key());
  bool full = false;
  bool draining = false;
  {
    const std::lock_guard lock(mutex_);
    full = ranks_.size() > static_cast<size_t>(kMaxRankDirs);
    draining = draining_;
  }
  if (draining) return FailLaunch(id, "the worker is draining");
  if (full) return FailLaunch(id, "the worker keeps its bound of rank folders already");
  const Status status = LaunchRank(context_, desired);
  if (!status.ok()) return FailLaunch(id, status.message());
  spdlog::info("{} launched on {}", ToString(id), desired.device());
  bool stop = false;
  {
    const std::lock_guard lock(mutex_);
    RankEntry& entry = ranks_.at(id);
    entry.FinishLaunch();
    stop = entry.stop_requested();  // a drain came meanwhile
  }
  if (stop) Ask(id, coatrack::v1::STOP_MODE_CHECKPOINT);
}

void Supervisor::FailLaunch(const RankId& id, const std::string& why) {
  spdlog::error("{} was not launched: {}", ToString(id), why);
  coatrack::v1::RankExit exit;
  exit.set_exit_status(-1);
  exit.set_reason(coatrack::v1::REASON_LAUNCH_FAILED);
  exit.set_message(why);
  exit.mutable_time()->set_seconds(clock_->WallMs() / 1000);
  // A later daemon reads it there; where there is no folder, nothing is left to be explained.
  const std::string dir = DirOf(id);
  const Status status = std::filesystem::exists(dir) ? WriteExit(dir, exit) : Status();
  if (!status.ok()) spdlog::warn("{}", status.message());
  const std::lock_guard lock(mutex_);
  ranks_.at(id).Fail(exit);
}

void Supervisor::Poll() {
  bool urgent = false;
  std::vector<std::string> kill_dirs;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, entry] : ranks_) {
      urgent = entry.Poll(clock_->SteadyMs()) || urgent;
      if (entry.MustKill(clock_->SteadyMs())) kill_dirs.push_back(entry.dir());
    }
  }
  for (const std::string& dir : kill_dirs) {
    const Status status = KillRank(dir);
    spdlog::info("killed {}{}", dir, status.ok() ? "" : ": " + status.message());
  }
  if (urgent) on_urgent_();
}

void Supervisor::Drain(const std::string& reason, int64_t grace_ms) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    drain_reason_ = reason;
    for (auto& [id, entry] : ranks_) {
      Stop(&entry, coatrack::v1::STOP_MODE_CHECKPOINT, grace_ms, reason, &todo);
    }
  }
  Carry(todo);
  on_urgent_();
}

}  // namespace coat
