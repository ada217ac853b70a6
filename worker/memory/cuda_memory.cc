#include "worker/memory/cuda_memory.h"

#include <cuda_runtime.h>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cuda/context.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace coat {
namespace {

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(const std::string& device, int64_t bytes) : device_(FindCudaDevice(device)) {
    if (bytes == 0) return;
    CudaCheck(cudaSetDevice(device_), "cudaSetDevice");
    size_t available = 0, total = 0;
    CudaCheck(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    const cudaError_t status = cudaMalloc(&data_, static_cast<size_t>(bytes));
    if (status != cudaSuccess) {
      (void)cudaGetLastError();  // an allocation that failed leaves the context usable
      throw Error(Code::kOutOfDeviceMemory,
                  device + ": the plan asks for " + FormatBytes(bytes) + " (" +
                      std::to_string(bytes) + " bytes), " +
                      FormatBytes(static_cast<int64_t>(available)) + " of " +
                      FormatBytes(static_cast<int64_t>(total)) + " are free (" +
                      cudaGetErrorString(status) +
                      "); use a smaller micro_batch, precision.save lean, or another GPU");
    }
    CudaCheck(cudaMemset(data_, 0, static_cast<size_t>(bytes)), "cudaMemset");
    CudaCheck(cudaDeviceSynchronize(), "cudaMemset");
  }
  ~CudaMemory() override {
    if (data_ == nullptr) return;
    cudaSetDevice(device_);
    cudaFree(data_);
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  void* data() const override { return data_; }

 private:
  int device_ = 0;
  void* data_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceMemory> ReserveCudaMemory(const std::string& device, int64_t bytes) {
  return std::make_unique<CudaMemory>(device, bytes);
}

}  // namespace coat
