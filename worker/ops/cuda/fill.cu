#include <algorithm>

#include "configs/base/units.h"
#include "worker/ops/cuda/context.h"

namespace coat {
namespace {

__global__ void FillKernel(int32_t* x, int64_t count, int32_t value) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    x[i] = value;
  }
}

}  // namespace

void FillInts(int32_t* x, int64_t count, int32_t value, cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(CeilDiv(count, 256), 1024));
  FillKernel<<<blocks, 256, 0, stream>>>(x, count, value);
  CudaCheck(cudaGetLastError(), "FillInts");
}

}  // namespace coat
