#include "worker/collectives/reduce.h"

#include <algorithm>
#include <string>

#include "configs/base/error.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

// A tile of sums stays in the first-level cache while the ranks' parts stream through.
constexpr int64_t kTile = 1024;

template <typename T, typename Sum, typename Load, typename Store>
void SumTiles(std::span<const void* const> parts, int64_t count, void* out, Load load,
              Store store) {
  Sum sums[kTile];
  for (int64_t begin = 0; begin < count; begin += kTile) {
    const int64_t n = std::min(kTile, count - begin);
    const T* first = static_cast<const T*>(parts[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sums[i] = load(first[i]);
    for (size_t r = 1; r < parts.size(); ++r) {
      const T* part = static_cast<const T*>(parts[r]) + begin;
      for (int64_t i = 0; i < n; ++i) sums[i] += load(part[i]);
    }
    T* to = static_cast<T*>(out) + begin;
    for (int64_t i = 0; i < n; ++i) to[i] = store(sums[i]);
  }
}

}  // namespace

void SumInRankOrder(DType dtype, std::span<const void* const> parts, int64_t count, void* out) {
  const auto same = [](auto x) { return x; };
  if (dtype == DType::kF32) {
    SumTiles<float, float>(parts, count, out, same, same);
  } else if (dtype == DType::kBF16) {
    SumTiles<uint16_t, float>(parts, count, out, FloatFromBf16, Bf16FromFloat);
  } else if (dtype == DType::kI32) {
    SumTiles<uint32_t, uint32_t>(parts, count, out, same, same);
  } else {
    throw Error(Code::kInternal, std::string("AllReduceSum: no sum of ") + DTypeName(dtype));
  }
}

Share ShareOf(int64_t numel, int rank, int world_size) {
  const int64_t base = numel / world_size;
  const int64_t more = numel % world_size;
  return {rank * base + std::min<int64_t>(rank, more), base + (rank < more ? 1 : 0)};
}

void CheckReducible(const Tensor& x) {
  Check(x.numel() == 0 || x.contiguous(), "AllReduceSum: the tensor is not contiguous");
  Check(x.dtype == DType::kF32 || x.dtype == DType::kBF16 || x.dtype == DType::kI32,
        std::string("AllReduceSum: no sum of ") + DTypeName(x.dtype));
}

}  // namespace coat
