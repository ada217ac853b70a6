#include "worker/ops/device_info.h"

#include "worker/ops/cuda/cuda_ops.h"

namespace coat {

Result<int> CountCudaDevices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  return Status(Code::kFailedPrecondition,
                std::string("this machine has no GPU that CUDA can use (") +
                    cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status) + ")");
}

std::string CudaOps::device_name() const {
  cudaDeviceProp properties;
  CudaCheck(cudaGetDeviceProperties(&properties, context_.device), "cudaGetDeviceProperties");
  return properties.name;
}

std::optional<int64_t> CudaOps::device_used_bytes() const {
  size_t available = 0, total = 0;
  CudaCheck(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(total - available);
}

std::shared_ptr<std::byte> CudaOps::HostBuffer(int64_t bytes) {
  void* memory = nullptr;
  if (bytes > 0) CudaCheck(cudaMallocHost(&memory, static_cast<size_t>(bytes)), "cudaMallocHost");
  return {static_cast<std::byte*>(memory), [](std::byte* p) { cudaFreeHost(p); }};
}

}  // namespace coat
