#include "worker/supervisor/metrics_page.h"

#include <limits>
#include <utility>

namespace coat {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Label = ClientMetric::Label;

ClientMetric& AddMetric(const RankSeries& rank, const std::vector<Label>& more,
                        MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label = {{"job_id", rank.job_id},
                  {"job_name", rank.job_name},
                  {"rank", std::to_string(rank.rank)},
                  {"device", rank.device}};
  metric.label.insert(metric.label.end(), more.begin(), more.end());
  return metric;
}

// One family over all ranks; `fill` adds what a rank has of it.
template <typename Fill>
void AddFamily(const char* name, const char* help, MetricType type,
               const std::vector<RankSeries>& ranks, std::vector<MetricFamily>* families,
               const Fill& fill) {
  MetricFamily family{name, help, type, {}};
  for (const RankSeries& rank : ranks) {
    if (!rank.metrics.empty()) fill(rank, &family);
  }
  if (!family.metric.empty()) families->push_back(std::move(family));
}

void AddGauge(const RankSeries& rank, const std::vector<Label>& more, double value,
              MetricFamily* family) {
  AddMetric(rank, more, family).gauge.value = value;
}

void AddKinds(const RankSeries& rank, const std::map<std::string, int64_t>& kinds,
              const std::string& recipe, MetricFamily* family) {
  for (const auto& [kind, bytes] : kinds) {
    std::vector<Label> more{{"kind", kind}};
    if (!recipe.empty()) more.push_back({"recipe", recipe});
    AddGauge(rank, more, static_cast<double>(bytes), family);
  }
}

void AddHistogram(const RankSeries& rank, const char* moment, const coatrack::v1::Histogram& counts,
                  MetricFamily* family) {
  if (counts.counts_size() == 0) return;
  auto& histogram = AddMetric(rank, {{"moment", moment}}, family).histogram;
  const int last = counts.bounds_size() - 1;
  double below = 0;
  for (int i = 0; i < counts.counts_size(); ++i) {
    const bool open = i > last;
    const double bound = open ? std::numeric_limits<double>::infinity() : counts.bounds(i);
    const double middle = open ? below : (below + bound) / 2;
    histogram.sample_count += static_cast<uint64_t>(counts.counts(i));
    histogram.sample_sum += middle * static_cast<double>(counts.counts(i));
    histogram.bucket.push_back({histogram.sample_count, bound});
    if (!open) below = bound;
  }
}

void AddMemory(const std::vector<RankSeries>& ranks, std::vector<MetricFamily>* families) {
  AddFamily("coat_memory_bytes", "Memory of a rank by kind, measured", MetricType::Gauge, ranks,
            families, [](const RankSeries& rank, MetricFamily* family) {
              AddKinds(rank, rank.metrics.memory(), "", family);
            });
  AddFamily("coat_memory_planned_bytes", "Memory of a rank by kind, planned for a recipe",
            MetricType::Gauge, ranks, families, [](const RankSeries& rank, MetricFamily* family) {
              AddKinds(rank, rank.metrics.planned(), rank.recipe, family);
              if (rank.recipe != "bf16") {
                AddKinds(rank, rank.metrics.planned_bf16(), "bf16", family);
              }
            });
  AddFamily("coat_device_memory_used_bytes", "Memory a rank uses on its device", MetricType::Gauge,
            ranks, families, [](const RankSeries& rank, MetricFamily* family) {
              AddGauge(rank, {}, static_cast<double>(rank.metrics.measured_bytes()), family);
            });
  AddFamily("coat_device_memory_total_bytes", "Memory a device offers", MetricType::Gauge, ranks,
            families, [](const RankSeries& rank, MetricFamily* family) {
              AddGauge(rank, {}, static_cast<double>(rank.device_bytes), family);
            });
}

void AddSpeed(const std::vector<RankSeries>& ranks, std::vector<MetricFamily>* families) {
  AddFamily("coat_train_step_seconds", "Duration of the last step", MetricType::Gauge, ranks,
            families, [](const RankSeries& rank, MetricFamily* family) {
              AddGauge(rank, {}, rank.metrics.step_seconds(), family);
            });
  AddFamily("coat_train_tokens_total", "Tokens trained on, a rank's share", MetricType::Counter,
            ranks, families, [](const RankSeries& rank, MetricFamily* family) {
              AddMetric(rank, {}, family).counter.value =
                  static_cast<double>(rank.metrics.tokens_total()) / rank.world_size;
            });
  AddFamily("coat_train_skipped_steps_total", "Steps without an update", MetricType::Counter, ranks,
            families, [](const RankSeries& rank, MetricFamily* family) {
              AddMetric(rank, {}, family).counter.value =
                  static_cast<double>(rank.metrics.skipped_total());
            });
}

template <typename Value>
void AddHealth(const char* name, const char* help, const std::vector<RankSeries>& ranks,
               std::vector<MetricFamily>* families, const Value& value) {
  AddFamily(name, help, MetricType::Gauge, ranks, families,
            [&](const RankSeries& rank, MetricFamily* family) {
              for (const auto& [operand, health] : rank.metrics.health()) {
                AddGauge(rank, {{"operand", operand}}, value(health), family);
              }
            });
}

}  // namespace

std::vector<MetricFamily> RenderRankSeries(const std::vector<RankSeries>& ranks) {
  using coatrack::v1::OperandHealth;
  std::vector<MetricFamily> families;
  AddMemory(ranks, &families);
  AddSpeed(ranks, &families);
  AddHealth("coat_fp8_saturated_ratio", "Share of values at the format's largest", ranks, &families,
            [](const OperandHealth& health) { return health.saturated_ratio(); });
  AddHealth("coat_fp8_flushed_ratio", "Share of non-zero values whose code is zero", ranks,
            &families, [](const OperandHealth& health) { return health.flushed_ratio(); });
  AddHealth("coat_fp8_relative_error", "Quantization error against the norm of the values", ranks,
            &families, [](const OperandHealth& health) { return health.relative_error(); });
  AddFamily("coat_optimizer_expansion_k", "Expansion exponents k of the moments' groups",
            MetricType::Histogram, ranks, &families,
            [](const RankSeries& rank, MetricFamily* family) {
              AddHistogram(rank, "m", rank.metrics.expansion_k_m(), family);
              AddHistogram(rank, "v", rank.metrics.expansion_k_v(), family);
            });
  return families;
}

}  // namespace coat
