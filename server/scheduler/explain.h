// The sentence that a waiting job shows. Says what is needed, what there is, what could be done.
#pragma once

#include <string>

#include "server/scheduler/cluster.h"
#include "server/scheduler/snapshot.h"

namespace coat {

// "2 gpu devices of at least 1.5 GiB"
std::string DescribeNeed(const Need& need);
std::string ExplainStorage(const PendingJob& job, int64_t labelled_workers);
std::string ExplainNoFit(const PendingJob& job, const Need& need, int64_t largest_bytes,
                         int64_t devices);
std::string ExplainUnusable(const Need& need);
std::string ExplainBusy(const Need& need, const Cluster::FreeCount& free);
std::string ExplainReserved(const Need& need, const Reservation& reservation);
std::string ExplainBackoff(int64_t wait_ms);

}  // namespace coat
