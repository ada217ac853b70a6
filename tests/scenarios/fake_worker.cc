#include "tests/scenarios/fake_worker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/jobs/reason.h"

namespace coat {
namespace {

FakeWorker::Key KeyOf(const coatrack::v1::RankKey& key) {
  return {key.job_id(), key.attempt(), key.rank()};
}

}  // namespace

FakeWorker::FakeWorker(std::string name, int devices, std::string root_uuid,
                       std::map<std::string, std::string> labels)
    : name_(std::move(name)),
      devices_(devices),
      root_uuid_(std::move(root_uuid)),
      labels_(std::move(labels)) {}

coatrack::v1::SyncRequest FakeWorker::Report() const {
  coatrack::v1::SyncRequest request;
  request.set_worker(name_);
  request.set_incarnation(name_ + "/" + std::to_string(incarnation_));
  request.set_epoch(epoch_);
  request.set_applied_revision(applied_revision_);
  request.set_draining(draining);
  for (int d = 0; d < devices_; ++d) {
    coatrack::v1::Device* device = request.add_devices();
    device->set_id("cpu:" + std::to_string(d));
    device->set_kind(coatrack::v1::DEVICE_KIND_CPU);
    device->set_total_bytes(1 << 30);
    device->set_threads(1);
  }
  coatrack::v1::StorageRoot* root = request.add_roots();
  root->set_name("default");
  root->set_uuid(root_uuid_);
  request.mutable_labels()->insert(labels_.begin(), labels_.end());
  for (const auto& [key, rank] : ranks_) *request.add_ranks() = rank.report;
  coatrack::v1::CheckpointReport* report = request.add_checkpoints();
  report->set_root_uuid(root_uuid_);
  for (const coatrack::v1::Checkpoint& checkpoint : checkpoints_) {
    *report->add_checkpoints() = checkpoint;
  }
  return request;
}

void FakeWorker::Apply(const coatrack::v1::SyncResponse& response) {
  if (response.epoch() < epoch_) return;
  epoch_ = response.epoch();
  applied_revision_ = response.revision();
  for (const coatrack::v1::RankKey& key : response.acknowledged()) ranks_.erase(KeyOf(key));
  std::set<Key> listed;
  for (const coatrack::v1::DesiredRank& desired : response.ranks()) {
    const Key key = KeyOf(desired.key());
    listed.insert(key);
    const auto [place, fresh] = ranks_.try_emplace(key);
    Rank& rank = place->second;
    if (fresh) {
      *rank.report.mutable_key() = desired.key();
      rank.report.set_state(coatrack::v1::RANK_STATE_RUNNING);
      rank.report.set_phase(coatrack::v1::PHASE_LOAD);
      rank.report.set_device(desired.device());
      rank.resume = desired.resume();
    }
    if (desired.stop() == coatrack::v1::STOP_MODE_CHECKPOINT) {
      Exit(key, coatrack::v1::REASON_STOPPED);
    }
  }
  for (auto& [key, rank] : ranks_) {
    if (!listed.contains(key)) Exit(key, coatrack::v1::REASON_PEER_FAILED);
  }
}

FakeWorker::Rank* FakeWorker::Find(const Key& key) {
  const auto found = ranks_.find(key);
  return found == ranks_.end() ? nullptr : &found->second;
}

void FakeWorker::Exit(const Key& key, coatrack::v1::Reason reason) {
  Rank* rank = Find(key);
  if (rank == nullptr || rank->report.state() != coatrack::v1::RANK_STATE_RUNNING) return;
  rank->report.set_state(coatrack::v1::RANK_STATE_EXITED);
  rank->report.mutable_exit()->set_reason(reason);
  rank->report.mutable_exit()->set_message(ReasonName(reason));
  rank->report.set_logs_delivered(true);
}

void FakeWorker::ReportOldExit(const Key& key) {
  coatrack::v1::RankReport& report = ranks_[key].report;
  report.mutable_key()->set_job_id(std::get<0>(key));
  report.mutable_key()->set_attempt(std::get<1>(key));
  report.mutable_key()->set_rank(std::get<2>(key));
  report.set_state(coatrack::v1::RANK_STATE_EXITED);
  report.mutable_exit()->set_reason(coatrack::v1::REASON_CRASHED);
  report.mutable_exit()->set_message("an old story");
  report.set_logs_delivered(true);
}

void FakeWorker::Restart(bool remembers) {
  ++incarnation_;
  applied_revision_ = 0;
  if (!remembers) ranks_.clear();
}

void FakeWorker::Progress(const std::string& job, int64_t step) {
  for (auto& [key, rank] : ranks_) {
    if (std::get<0>(key) != job) continue;
    rank.report.set_phase(coatrack::v1::PHASE_STEP);
    rank.report.set_step(step);
    rank.report.set_collective_sequence(static_cast<uint64_t>(step) * 10);
    rank.report.set_progress_age_seconds(0);
  }
}

void FakeWorker::AddCheckpoint(const std::string& job, int64_t step, int32_t attempt) {
  coatrack::v1::Checkpoint& checkpoint = checkpoints_.emplace_back();
  checkpoint.set_job_id(job);
  checkpoint.set_step(step);
  checkpoint.set_attempt(attempt);
  checkpoint.set_path("/root/" + job + "/step-" + std::to_string(step) + ".attempt-" +
                      std::to_string(attempt));
}

void FakeWorker::Age(double seconds) {
  for (auto& [key, rank] : ranks_) {
    rank.report.set_progress_age_seconds(rank.report.progress_age_seconds() + seconds);
  }
}

std::vector<std::string> FakeWorker::Running() const {
  std::vector<std::string> running;
  for (const auto& [key, rank] : ranks_) {
    if (rank.report.state() != coatrack::v1::RANK_STATE_RUNNING) continue;
    const auto& [job, attempt, number] = key;
    running.push_back(job + "." + std::to_string(attempt) + " rank " + std::to_string(number) +
                      (rank.resume.empty() ? "" : " from " + rank.resume));
  }
  return running;
}

bool FakeWorker::Runs(const Key& key) const {
  const auto found = ranks_.find(key);
  return found != ranks_.end() && found->second.report.state() == coatrack::v1::RANK_STATE_RUNNING;
}

}  // namespace coat
