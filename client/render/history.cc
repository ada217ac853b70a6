#include "client/render/history.h"

#include <algorithm>
#include <iterator>

namespace coat {
namespace {

using coatrack::v1::StepRecord;

constexpr int kRecentSteps = 20;

// A step may have several records: of its training, of an evaluation, repeated after a reconnect.
void Join(const StepRecord& record, StepRecord* kept) {
  if (record.memory_size() > 0) kept->clear_memory();
  if (record.memory_planned_size() > 0) kept->clear_memory_planned();
  if (record.memory_planned_bf16_size() > 0) kept->clear_memory_planned_bf16();
  if (record.health_size() > 0) kept->clear_health();
  if (record.has_expansion_k_m()) kept->clear_expansion_k_m();
  if (record.has_expansion_k_v()) kept->clear_expansion_k_v();
  kept->MergeFrom(record);
}

}  // namespace

void RunHistory::Add(const StepRecord& record) {
  if (record.rank() != 0) return;
  const StepRecord* last = newest();
  if (last != nullptr && record.attempt() > last->attempt()) {
    records_.erase(records_.lower_bound(record.step()), records_.end());
  }
  Join(record, &records_[record.step()]);
}

const StepRecord* RunHistory::newest() const {
  return records_.empty() ? nullptr : &records_.rbegin()->second;
}

std::vector<PlotPoint> RunHistory::Losses() const {
  std::vector<PlotPoint> points;
  for (const auto& [step, record] : records_) {
    if (record.has_loss()) points.push_back({static_cast<double>(step), record.loss()});
  }
  return points;
}

std::vector<PlotPoint> RunHistory::ValidationLosses() const {
  std::vector<PlotPoint> points;
  for (const auto& [step, record] : records_) {
    if (!record.has_validation_loss()) continue;
    points.push_back({static_cast<double>(step), record.validation_loss()});
  }
  return points;
}

std::vector<StepRecord> RunHistory::Records() const {
  std::vector<StepRecord> records;
  for (const auto& [step, record] : records_) records.push_back(record);
  return records;
}

std::optional<double> RunHistory::first_validation_loss() const {
  for (const auto& [step, record] : records_) {
    if (record.has_validation_loss()) return record.validation_loss();
  }
  return std::nullopt;
}

std::optional<double> RunHistory::last_validation_loss() const {
  for (auto it = records_.rbegin(); it != records_.rend(); ++it) {
    if (it->second.has_validation_loss()) return it->second.validation_loss();
  }
  return std::nullopt;
}

const StepRecord* RunHistory::newest_memory() const {
  for (auto it = records_.rbegin(); it != records_.rend(); ++it) {
    if (it->second.memory_size() > 0) return &it->second;
  }
  return nullptr;
}

const StepRecord* RunHistory::newest_health() const {
  for (auto it = records_.rbegin(); it != records_.rend(); ++it) {
    if (it->second.health_size() > 0) return &it->second;
  }
  return nullptr;
}

const StepRecord* RunHistory::newest_checkpoint() const {
  for (auto it = records_.rbegin(); it != records_.rend(); ++it) {
    if (!it->second.checkpoint().empty()) return &it->second;
  }
  return nullptr;
}

double RunHistory::tokens_per_second() const {
  double tokens = 0, seconds = 0;
  int count = 0;
  for (auto it = records_.rbegin(); it != records_.rend() && count < kRecentSteps; ++it, ++count) {
    tokens += static_cast<double>(it->second.tokens());
    seconds += it->second.step_seconds();
  }
  return seconds > 0 ? tokens / seconds : 0;
}

double RunHistory::seconds_per_step() const {
  double seconds = 0;
  int count = 0;
  for (auto it = records_.rbegin(); it != records_.rend() && count < kRecentSteps; ++it) {
    if (it->second.step_seconds() <= 0) continue;
    seconds += it->second.step_seconds();
    ++count;
  }
  return count > 0 ? seconds / count : 0;
}

int64_t RunHistory::tokens_total() const { return records_.empty() ? 0 : newest()->tokens_total(); }

double RunHistory::step_seconds_total() const {
  double seconds = 0;
  for (const auto& [step, record] : records_) seconds += record.step_seconds();
  return seconds;
}

}  // namespace coat
