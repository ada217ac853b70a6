// FP8 health of the stored moments (NUMERICS 7), from a sample of every tensor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "worker/ops/ops.h"
#include "worker/optim/layout.h"
#include "worker/precision/adamw_update.h"

namespace coat {

// Six counters as MeasureArgs, then the smallest and largest a (fp8_dre) or scale (fp8) of groups
// that hold a non-zero value. Every such group has a saturated code: that of its largest value.
using HealthCounters = std::array<float, 8>;

struct MomentHealth {
  HealthCounters m{}, v{};
};

// Repeats on the host what the coming update does to the moments of up to 16 groups from the middle
// of each tensor, and compares them before and after they are encoded. Must be called between
// GradNorm and AdamW. Synchronizes. All zero unless the storage is FP8.
MomentHealth SampleMomentHealth(Ops* ops, const OptimizerFormats& formats,
                                std::span<const AdamWTensor> tensors,
                                const AdamWCoefficients& coefficients);

}  // namespace coat
