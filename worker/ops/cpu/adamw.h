// AdamW of the CPU backend (NUMERICS 5).
#pragma once

#include "worker/ops/cpu/thread_pool.h"
#include "worker/ops/ops.h"

namespace coat {

// Ops::AdamW. Same bits for any number of threads.
void CpuAdamW(const AdamWArgs& args, ThreadPool& pool);

}  // namespace coat
