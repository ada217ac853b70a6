#include "configs/metrics/family.h"

#include <limits>
#include <string_view>

#include "configs/base/error.h"

namespace coat {
namespace {

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kGauge: return prometheus::MetricType::Gauge;
    case MetricType::kCounter: return prometheus::MetricType::Counter;
    case MetricType::kHistogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

void AppendNames(std::string_view text, std::vector<std::string>* names) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    names->emplace_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
}

}  // namespace

FamilyBuilder::FamilyBuilder(const Metric& metric) : metric_(metric) {
  AppendNames(PageLabels(metric.page), &label_names_);
  AppendNames(metric.labels, &label_names_);
  family_.name = metric.name;
  family_.help = metric.help;
  family_.type = TypeOf(metric.type);
}

prometheus::ClientMetric& FamilyBuilder::Add(const std::vector<std::string>& labels) {
  Check(labels.size() == label_names_.size(), family_.name + " has " +
                                                  std::to_string(label_names_.size()) +
                                                  " labels, not " + std::to_string(labels.size()));
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  metric.label.reserve(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) metric.label.push_back({label_names_[i], labels[i]});
  return metric;
}

void FamilyBuilder::Set(const std::vector<std::string>& labels, double value) {
  Check(metric_.type != MetricType::kHistogram, family_.name + " is a histogram");
  prometheus::ClientMetric& metric = Add(labels);
  metric_.type == MetricType::kCounter ? metric.counter.value = value : metric.gauge.value = value;
}

void FamilyBuilder::SetHistogram(const std::vector<std::string>& labels,
                                 std::span<const double> bounds, std::span<const int64_t> counts,
                                 double sum) {
  Check(metric_.type == MetricType::kHistogram, family_.name + " is not a histogram");
  prometheus::ClientMetric::Histogram& histogram = Add(labels).histogram;
  for (size_t i = 0; i <= bounds.size() && i < counts.size(); ++i) {
    histogram.sample_count += static_cast<uint64_t>(counts[i]);
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = sum;
}

}  // namespace coat
