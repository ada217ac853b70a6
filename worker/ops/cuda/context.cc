#include "worker/ops/cuda/context.h"

#include "configs/base/error.h"

namespace coat {

void CudaCheck(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const Code code =
      status == cudaErrorMemoryAllocation ? Code::kOutOfDeviceMemory : Code::kInternal;
  throw Error(code, std::string(what) + ": " + cudaGetErrorString(status));
}

void CublasCheck(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Code::kInternal, std::string(what) + ": " + cublasLtGetStatusString(status));
}

void Expect(const Tensor& x, DType dtype, const char* what) {
  if (!x.empty() && x.dtype == dtype) return;
  throw Error(Code::kInternal, std::string(what) + ": expected " + DTypeName(dtype) + ", got " +
                                   (x.empty() ? "nothing" : DTypeName(x.dtype)));
}

void CudaContext::RequireScratch(int64_t bytes, const char* what) const {
  if (bytes <= scratch_bytes) return;
  throw Error(Code::kInternal, std::string(what) + ": needs " + std::to_string(bytes) +
                                   " bytes of workspace, the plan gave " +
                                   std::to_string(scratch_bytes));
}

}  // namespace coat
