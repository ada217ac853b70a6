#include "worker/supervisor/rank_entry.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>

#include "configs/spec/writer.h"
#include "worker/supervisor/rank_launcher.h"
#include "worker/supervisor/record_cursor.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

constexpr int64_t kReadBytes = 256 * 1024;
constexpr int64_t kKillRepeatMs = 1000;

bool EndedByOurSignal(const coatrack::v1::RankExit& exit) {
  return !exit.host_oom() && (exit.signal() == SIGKILL || exit.signal() == SIGTERM);
}

}  // namespace

void RankStreams::Demand(std::optional<int64_t> offset) {
  if (offset && (!output_demand || *offset < *output_demand || *offset > output_acknowledged)) {
    output_acknowledged = *offset;
  }
  output_demand = offset;
}

RankEntry::RankEntry(std::string dir, RankId id, int64_t now_ms)
    : dir_(std::move(dir)), id_(std::move(id)), progress_at_ms_(now_ms) {}

RankEntry::RankEntry(std::string dir, const coatrack::v1::DesiredRank& desired, int64_t now_ms)
    : RankEntry(std::move(dir), ToRankId(desired.key()), now_ms) {
  device_ = desired.device();
  root_uuid_ = desired.root_uuid();
  world_size_ = std::max(1, desired.world_size());
  job_name_ = desired.spec().name();
  recipe_ = EnumWord(desired.spec().precision().recipe());
  pinned_.emplace(desired.pinned().begin(), desired.pinned().end());
  launching_ = true;
}

RankEntry RankEntry::Adopt(const std::string& dir, const RankId& id, int64_t now_ms) {
  RankEntry entry(dir, id, now_ms);
  if (const auto desired = ReadDesired(dir); desired.ok()) {
    entry.device_ = desired->device();
    entry.root_uuid_ = desired->root_uuid();
    entry.world_size_ = std::max(1, desired->world_size());
  }
  if (const auto launch = ReadLaunch(dir); launch.ok()) {
    if (const auto spec = ReadSpec(*launch); spec.ok()) {
      entry.job_name_ = spec->name();
      entry.recipe_ = EnumWord(spec->precision().recipe());
    }
  }
  return entry;
}

bool RankEntry::Repin(const std::vector<std::string>& names) {
  if (pinned_ == names) return false;
  pinned_ = names;
  return true;
}

void RankEntry::Fail(const coatrack::v1::RankExit& exit) {
  launching_ = false;
  exit_ = exit;
  state_ = coatrack::v1::RANK_STATE_EXITED;
}

void RankEntry::MarkLost() {
  launching_ = false;
  state_ = coatrack::v1::RANK_STATE_LOST;
}

bool RankEntry::Poll(int64_t now_ms) {
  if (launching_ || !alive()) return false;
  // Liveness is read first: what a dead rank wrote is complete, so nothing is missed below.
  const bool lives = RankIsAlive(dir_);
  bool urgent = ReadNewRecords(now_ms);
  if (!has_manifest_ && id_.rank == 0) {
    if (auto manifest = ReadDataManifest(dir_); manifest.ok()) {
      manifest_ = std::move(*manifest);
      has_manifest_ = true;
      urgent = true;
    }
  }
  if (lives) return urgent;
  Ended();
  return true;
}

void RankEntry::Ended() {
  auto exit = ReadExit(dir_);
  if (!exit.ok()) {
    spdlog::warn("{} is lost: {}", ToString(id_), exit.status().message());
    state_ = coatrack::v1::RANK_STATE_LOST;
    return;
  }
  exit_ = std::move(*exit);
  state_ = coatrack::v1::RANK_STATE_EXITED;
  if (stop_requested() && EndedByOurSignal(exit_)) {
    exit_.set_reason(coatrack::v1::REASON_STOPPED);
    exit_.set_message(killed_ ? "killed by the worker: " + stop_reason_
                              : "ended by the stop request before it could checkpoint: " +
                                    stop_reason_);
    // So that a later daemon tells the same story; this one has it in memory.
    if (const Status status = WriteExit(dir_, exit_); !status.ok()) {
      spdlog::warn("{}: {}", ToString(id_), status.message());
    }
  }
  spdlog::info("{} ended: status {}, signal {}, {}{}{}", ToString(id_), exit_.exit_status(),
               exit_.signal(), EnumWord(exit_.reason()), exit_.message().empty() ? "" : ": ",
               exit_.message());
}

bool RankEntry::ReadNewRecords(int64_t now_ms) {
  bool urgent = false;
  while (true) {
    const auto chunk = ReadGoodRecords(dir_, records_offset_, kReadBytes);
    if (!chunk.ok()) {
      spdlog::warn("{}", chunk.status().message());
      return urgent;
    }
    for (const auto& record : chunk->records) Observe(record, now_ms, &urgent);
    if (chunk->next_offset == records_offset_) return urgent;
    records_offset_ = chunk->next_offset;
  }
}

void RankEntry::Observe(const coatrack::v1::StepRecord& record, int64_t now_ms, bool* urgent) {
  const bool moved = record.phase() != phase_ || record.step() != step_ ||
                     record.collective_sequence() != collective_sequence_;
  if (moved) progress_at_ms_ = now_ms;
  if (step_ == 0 && record.step() > 0) *urgent = true;
  if (!record.checkpoint().empty()) *urgent = true;
  phase_ = record.phase();
  step_ = std::max(step_, record.step());
  collective_sequence_ = record.collective_sequence();
  metrics_.Add(record);
}

RankEntry::StopAction RankEntry::RequestStop(coatrack::v1::StopMode mode, int64_t grace_ms,
                                             const std::string& why, int64_t now_ms) {
  if (!alive()) return StopAction::kNone;
  const bool now = mode == coatrack::v1::STOP_MODE_NOW;
  const int64_t kill_at_ms = now ? now_ms : now_ms + grace_ms;
  if (!stop_requested()) {
    stop_mode_ = mode;
    kill_at_ms_ = kill_at_ms;
    stop_reason_ = why;
    return now ? StopAction::kKill : StopAction::kAsk;
  }
  const bool more_urgent = now && stop_mode_ != coatrack::v1::STOP_MODE_NOW;
  kill_at_ms_ = std::min(kill_at_ms_, kill_at_ms);
  if (!more_urgent) return StopAction::kNone;
  stop_mode_ = mode;
  stop_reason_ = why;
  return StopAction::kKill;
}

bool RankEntry::MustKill(int64_t now_ms) {
  if (launching_ || !alive() || !stop_requested() || now_ms < kill_at_ms_) return false;
  if (stop_mode_ == coatrack::v1::STOP_MODE_CHECKPOINT && !killed_) {
    stop_reason_ += "; it did not stop within the grace time";
  }
  killed_ = true;
  kill_at_ms_ = now_ms + kKillRepeatMs;
  return true;
}

void RankEntry::FillReport(int64_t now_ms, coatrack::v1::RankReport* report) const {
  SetRankKey(id_, report->mutable_key());
  report->set_state(state_);
  if (state_ == coatrack::v1::RANK_STATE_EXITED) *report->mutable_exit() = exit_;
  report->set_phase(phase_);
  report->set_step(step_);
  report->set_collective_sequence(collective_sequence_);
  report->set_progress_age_seconds(static_cast<double>(now_ms - progress_at_ms_) / 1000.0);
  report->set_device(device_);
  report->set_logs_delivered(!alive() && streams.output_delivered && streams.records_delivered);
  if (has_manifest_ && id_.attempt == 1) *report->mutable_data_manifest() = manifest_;
}

RankSeries RankEntry::Series() const {
  RankSeries series;
  series.job_id = id_.job_id;
  series.job_name = job_name_;
  series.rank = id_.rank;
  series.world_size = world_size_;
  series.device = device_;
  series.recipe = recipe_;
  series.metrics = metrics_;
  return series;
}

}  // namespace coat
