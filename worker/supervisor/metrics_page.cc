#include "worker/supervisor/metrics_page.h"

#include <string>
#include <utility>

#include "configs/metrics/family.h"

namespace coat {
namespace {

using Families = std::vector<prometheus::MetricFamily>;
using enum MetricPage;

std::vector<std::string> LabelsOf(const RankSeries& rank, std::vector<std::string> own = {}) {
  std::vector<std::string> labels = {rank.job_id, rank.job_name, std::to_string(rank.rank),
                                     rank.device};
  labels.insert(labels.end(), own.begin(), own.end());
  return labels;
}

// One family over all ranks; `fill` adds what a rank has of it.
template <typename Fill>
void AddFamily(const Metric& metric, const std::vector<RankSeries>& ranks, Families* families,
               const Fill& fill) {
  FamilyBuilder family(metric);
  for (const RankSeries& rank : ranks) {
    if (!rank.metrics.empty()) fill(rank, &family);
  }
  if (!family.empty()) families->push_back(family.Take());
}

// One number of each rank.
template <typename Value>
void AddNumber(const Metric& metric, const std::vector<RankSeries>& ranks, Families* families,
               const Value& value) {
  AddFamily(metric, ranks, families, [&](const RankSeries& rank, FamilyBuilder* family) {
    family->Set(LabelsOf(rank), static_cast<double>(value(rank)));
  });
}

void AddPlan(const RankSeries& rank, const std::map<std::string, int64_t>& kinds,
             const std::string& recipe, FamilyBuilder* family) {
  for (const auto& [kind, bytes] : kinds) {
    family->Set(LabelsOf(rank, {kind, recipe}), static_cast<double>(bytes));
  }
}

void AddMemory(const std::vector<RankSeries>& ranks, Families* families) {
  AddFamily(MetricOf(kRanks, "coat_memory_bytes"), ranks, families,
            [](const RankSeries& rank, FamilyBuilder* family) {
              for (const auto& [kind, bytes] : rank.metrics.memory()) {
                family->Set(LabelsOf(rank, {kind}), static_cast<double>(bytes));
              }
            });
  AddFamily(MetricOf(kRanks, "coat_memory_planned_bytes"), ranks, families,
            [](const RankSeries& rank, FamilyBuilder* family) {
              AddPlan(rank, rank.metrics.planned(), rank.recipe, family);
              if (rank.recipe != "bf16") {
                AddPlan(rank, rank.metrics.planned_bf16(), "bf16", family);
              }
            });
  AddNumber(MetricOf(kRanks, "coat_device_memory_used_bytes"), ranks, families,
            [](const RankSeries& rank) { return rank.metrics.measured_bytes(); });
  AddNumber(MetricOf(kRanks, "coat_device_memory_total_bytes"), ranks, families,
            [](const RankSeries& rank) { return rank.device_bytes; });
}

void AddSpeed(const std::vector<RankSeries>& ranks, Families* families) {
  AddNumber(MetricOf(kRanks, "coat_train_step_seconds"), ranks, families,
            [](const RankSeries& rank) { return rank.metrics.step_seconds(); });
  AddNumber(MetricOf(kRanks, "coat_train_tokens_total"), ranks, families,
            [](const RankSeries& rank) {
              return static_cast<double>(rank.metrics.tokens_total()) / rank.world_size;
            });
  AddNumber(MetricOf(kRanks, "coat_train_skipped_steps_total"), ranks, families,
            [](const RankSeries& rank) { return rank.metrics.skipped_total(); });
}

template <typename Value>
void AddHealth(const Metric& metric, const std::vector<RankSeries>& ranks, Families* families,
               const Value& value) {
  AddFamily(metric, ranks, families, [&](const RankSeries& rank, FamilyBuilder* family) {
    for (const auto& [operand, health] : rank.metrics.health()) {
      family->Set(LabelsOf(rank, {operand}), value(health));
    }
  });
}

void AddExponents(const RankSeries& rank, const char* moment,
                  const coatrack::v1::Histogram& exponents, FamilyBuilder* family) {
  if (exponents.counts().empty()) return;
  double sum = 0;
  double below = 0;
  for (int i = 0; i < exponents.counts_size(); ++i) {
    const bool open = i >= exponents.bounds_size();
    const double middle = open ? below : (below + exponents.bounds(i)) / 2;
    sum += middle * static_cast<double>(exponents.counts(i));
    if (!open) below = exponents.bounds(i);
  }
  const std::vector<double> bounds(exponents.bounds().begin(), exponents.bounds().end());
  const std::vector<int64_t> counts(exponents.counts().begin(), exponents.counts().end());
  family->SetHistogram(LabelsOf(rank, {moment}), bounds, counts, sum);
}

}  // namespace

Families RenderRankSeries(const std::vector<RankSeries>& ranks) {
  using coatrack::v1::OperandHealth;
  Families families;
  AddMemory(ranks, &families);
  AddSpeed(ranks, &families);
  AddHealth(MetricOf(kRanks, "coat_fp8_saturated_ratio"), ranks, &families,
            [](const OperandHealth& health) { return health.saturated_ratio(); });
  AddHealth(MetricOf(kRanks, "coat_fp8_flushed_ratio"), ranks, &families,
            [](const OperandHealth& health) { return health.flushed_ratio(); });
  AddHealth(MetricOf(kRanks, "coat_fp8_relative_error"), ranks, &families,
            [](const OperandHealth& health) { return health.relative_error(); });
  AddFamily(MetricOf(kRanks, "coat_optimizer_expansion_k"), ranks, &families,
            [](const RankSeries& rank, FamilyBuilder* family) {
              AddExponents(rank, "m", rank.metrics.expansion_k_m(), family);
              AddExponents(rank, "v", rank.metrics.expansion_k_v(), family);
            });
  return families;
}

}  // namespace coat
