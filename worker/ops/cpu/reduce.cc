#include <algorithm>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

// Halves until a tile is left, so that the rounding error grows with the logarithm of n.
float PairwiseSum(const float* x, int64_t n) {
  if (n <= kTile) {
    LaneSum sum;
    sum.Add(x, n);
    return sum.Total();
  }
  const int64_t half = n / 2 / kTile * kTile;
  const int64_t first = std::max(half, kTile);
  return PairwiseSum(x, first) + PairwiseSum(x + first, n - first);
}

}  // namespace

void CpuOps::Sum(const SumArgs& args) {
  CheckArgs(args);
  *args.out.as<float>() += PairwiseSum(args.x.as<float>(), args.x.numel());
}

}  // namespace coat
