#include "worker/ops/create_cuda.h"

#include "worker/ops/cuda/cuda_ops.h"

namespace coat {

std::unique_ptr<Ops> CreateCudaOps(const std::string& device, int) {
  return std::make_unique<CudaOps>(device);
}

}  // namespace coat
