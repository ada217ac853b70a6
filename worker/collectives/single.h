#pragma once

#include <memory>

#include "worker/collectives/collectives.h"

namespace coat {

// world_size 1: every call returns at once and counts.
std::unique_ptr<Collectives> CreateSingleRankCollectives();

// Error(kInternal) unless 0 <= rank < world_size.
void CheckRank(int rank, int world_size);

}  // namespace coat
