// Gradient norm, clip factor and finite flag of the CPU backend (NUMERICS 4).
#pragma once

#include "worker/ops/cpu/thread_pool.h"
#include "worker/ops/ops.h"

namespace coat {

// Ops::GradNorm. Same bits for any number of threads.
void CpuGradNorm(const GradNormArgs& args, ThreadPool& pool);

}  // namespace coat
