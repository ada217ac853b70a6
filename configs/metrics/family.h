// Values of a metric of the table -> what prometheus-cpp serializes. Rendered afresh at each
// scrape: the library's own families never forget a series.
#pragma once

#include <prometheus/metric_family.h>

#include <span>
#include <string>
#include <vector>

#include "configs/metrics/catalog.h"

namespace coat {

class FamilyBuilder {
 public:
  explicit FamilyBuilder(const Metric& metric);

  // Values of the labels: those of the page first, then the metric's own, each in the table's
  // order. Errors: kInternal when their number is not the table's, or the type is another.
  void Set(const std::vector<std::string>& labels, double value);  // of a gauge or a counter
  // `counts` per upper bound, and one more for what is above the last.
  void SetHistogram(const std::vector<std::string>& labels, std::span<const double> bounds,
                    std::span<const int64_t> counts, double sum);

  bool empty() const { return family_.metric.empty(); }
  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  prometheus::ClientMetric& Add(const std::vector<std::string>& labels);

  const Metric& metric_;
  std::vector<std::string> label_names_;
  prometheus::MetricFamily family_;
};

}  // namespace coat
