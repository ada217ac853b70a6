// The one order in which values of several ranks are added: rank 0, 1, 2, ... one after another in
// FP32 (I32 in int32), whatever the transport, the length or the position in the tensor.
#pragma once

#include <span>

#include "worker/tensor/tensor.h"

namespace coat {

// out[i] = sum over r of parts[r][i], i < count. F32, BF16 (FP32 sums, rounded once) or I32
// (wraps). `out` may be one of the parts. Error(kInternal) for other types.
void SumInRankOrder(DType dtype, std::span<const void* const> parts, int64_t count, void* out);

// Elements [first, first + count) of `numel` that `rank` sums: equal shares, remainder first.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};
Share ShareOf(int64_t numel, int rank, int world_size);

// Error(kInternal) unless `x` is contiguous and of a type that can be summed.
void CheckReducible(const Tensor& x);

}  // namespace coat
