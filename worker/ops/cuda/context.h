// Host side of the CUDA backend: stream, libraries, workspace, error checks.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "worker/ops/ops.h"

namespace coat {

// Throws Error (kOutOfDeviceMemory or kInternal) naming the call.
void CudaCheck(cudaError_t status, const char* what);
void CublasCheck(cublasStatus_t status, const char* what);

// Throws Error(kInternal) "operator.argument: ..." unless the view has that type.
void Expect(const Tensor& x, DType dtype, const char* what);

// Queues x[0..count) = value.
void FillInts(int32_t* x, int64_t count, int32_t value, cudaStream_t stream);

struct CudaContext {
  cudaStream_t stream = nullptr;
  int device = 0;
  int multiprocessors = 0;
  Tensor workspace;
  int64_t blas_bytes = 0;      // first part of the workspace
  uint8_t* scratch = nullptr;  // the rest: attention, reduction partials
  int64_t scratch_bytes = 0;

  // Throws Error(kInternal) when the plan gave too little.
  template <typename T>
  T* Scratch(int64_t count, const char* what) const {
    RequireScratch(count * static_cast<int64_t>(sizeof(T)), what);
    return reinterpret_cast<T*>(scratch);
  }
  void RequireScratch(int64_t bytes, const char* what) const;
};

}  // namespace coat
