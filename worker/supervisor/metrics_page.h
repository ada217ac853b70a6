// The worker's Prometheus page: per-rank series of the ranks that live here (SERVICE.md). Rendered
// from a snapshot at every scrape, so that a rank's series vanish with it.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "worker/supervisor/rank_metrics.h"

namespace coat {

// The metrics of MetricPage::kRanks (configs/metrics/catalog.h) that any of the ranks has; nothing
// of a rank without records.
std::vector<prometheus::MetricFamily> RenderRankSeries(const std::vector<RankSeries>& ranks);

}  // namespace coat
