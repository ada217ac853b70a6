#include "worker/supervisor/rank_metrics.h"

#include <algorithm>

namespace coat {
namespace {

void Replace(const google::protobuf::RepeatedPtrField<coatrack::v1::KindBytes>& from,
             std::map<std::string, int64_t>* to) {
  if (from.empty()) return;
  to->clear();
  for (const auto& kind : from) (*to)[kind.kind()] = kind.bytes();
}

void Accumulate(const coatrack::v1::Histogram& more, coatrack::v1::Histogram* total) {
  if (more.counts_size() != more.bounds_size() + 1) return;
  const bool same = std::equal(more.bounds().begin(), more.bounds().end(), total->bounds().begin(),
                               total->bounds().end());
  if (!same || total->counts_size() != more.counts_size()) {
    *total = more;
    return;
  }
  for (int i = 0; i < more.counts_size(); ++i) {
    total->set_counts(i, total->counts(i) + more.counts(i));
  }
}

}  // namespace

void RankMetrics::Add(const coatrack::v1::StepRecord& record) {
  seen_ = true;
  if (record.step_seconds() > 0) step_seconds_ = record.step_seconds();
  tokens_total_ = std::max(tokens_total_, record.tokens_total());
  skipped_total_ = std::max(skipped_total_, record.skipped_total());
  Replace(record.memory(), &memory_);
  Replace(record.memory_planned(), &planned_);
  Replace(record.memory_planned_bf16(), &planned_bf16_);
  for (const auto& health : record.health()) health_[health.operand()] = health;
  Accumulate(record.expansion_k_m(), &expansion_k_m_);
  Accumulate(record.expansion_k_v(), &expansion_k_v_);
}

int64_t RankMetrics::measured_bytes() const {
  int64_t sum = 0;
  for (const auto& [kind, bytes] : memory_) sum += bytes;
  return sum;
}

}  // namespace coat
