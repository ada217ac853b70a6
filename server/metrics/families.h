// ServerView -> Prometheus metric families. Pure. What they are: configs/metrics/catalog.h.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/loops/server_view.h"

namespace coat {

// Every metric of MetricPage::kFleet, those without a series included.
std::vector<prometheus::MetricFamily> FleetFamilies(const ServerView& view);

// Every metric of MetricPage::kJobs; a job that has no value of one has no series of it.
std::vector<prometheus::MetricFamily> JobFamilies(const ServerView& view);

}  // namespace coat
