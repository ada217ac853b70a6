// Sums over whole tensors in fixed order.
#include <vector>

#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/ops/cuda/views.h"

namespace coat {
namespace {

__global__ void SumKernel(const float* x, int64_t count, float* out) {
  const double sum = BlockSumInOrder(x, count);
  if (threadIdx.x == 0) *out += static_cast<float>(sum);
}

__device__ inline float Square(float x) { return x * x; }

__global__ void SquaresKernel(const float* x, int64_t count, double* partial) {
  __shared__ float scratch[33];
  float sum = 0;
  const int64_t vectors = count / 4;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  for (int64_t i = first; i < vectors; i += stride) {
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    sum += (Square(v.x) + Square(v.y)) + (Square(v.z) + Square(v.w));
  }
  if (first < count - vectors * 4) sum += Square(x[vectors * 4 + first]);
  sum = BlockSum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] += sum;
}

__global__ void SquaresKernel(const uint16_t* x, int64_t count, double* partial) {
  __shared__ float scratch[33];
  float sum = 0;
  const int64_t vectors = count / 8;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  for (int64_t i = first; i < vectors; i += stride) {
    const uint4 v = reinterpret_cast<const uint4*>(x)[i];
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum += Square(__uint_as_float(w[k] << 16)) + Square(__uint_as_float(w[k] & 0xffff0000u));
    }
  }
  if (first < count - vectors * 8) sum += Square(FloatFromBf16(x[vectors * 8 + first]));
  sum = BlockSum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] += sum;
}

__global__ void GradNormKernel(const double* partial, const int32_t* nonfinite,
                               const float* inverse_count, float clip_norm, StepState* state) {
  double sum = 0;  // one thread: kNormBlocks additions in order
  for (int i = 0; i < kNormBlocks; ++i) sum += partial[i];
  const float norm = static_cast<float>(sqrt(sum));
  const bool finite = isfinite(norm) && (nonfinite == nullptr || *nonfinite == 0);
  state->grad_norm = norm;
  state->clip_factor = clip_norm > 0 ? fminf(1.0f, clip_norm / (norm + 1e-6f)) : 1.0f;
  state->apply = finite && *inverse_count > 0 ? 1 : 0;
}

}  // namespace

void CudaOps::Sum(const SumArgs& args) {
  Expect(args.x, DType::kF32, "Sum.x");
  SumKernel<<<1, kSumInOrderThreads, 0, context_.stream>>>(args.x.as<float>(), args.x.numel(),
                                                           args.out.as<float>());
  CudaCheck(cudaGetLastError(), "Sum");
}

void CudaOps::GradNorm(const GradNormArgs& args) {
  Check(args.state.bytes() >= static_cast<int64_t>(sizeof(StepState)), "GradNorm.state is short");
  double* partial = context_.Scratch<double>(kNormBlocks, "GradNorm");
  CudaCheck(cudaMemsetAsync(partial, 0, kNormBlocks * sizeof(double), context_.stream), "GradNorm");
  for (const Tensor& grad : args.grads) {
    const int64_t count = grad.numel();
    if (count == 0) continue;
    if (grad.dtype == DType::kF32) {
      SquaresKernel<<<kNormBlocks, 256, 0, context_.stream>>>(grad.as<float>(), count, partial);
    } else {
      Expect(grad, DType::kBF16, "GradNorm.grads");
      SquaresKernel<<<kNormBlocks, 256, 0, context_.stream>>>(grad.as<uint16_t>(), count, partial);
    }
  }
  GradNormKernel<<<1, 1, 0, context_.stream>>>(partial, args.nonfinite.as<int32_t>(),
                                               args.inverse_count.as<float>(), args.clip_norm,
                                               reinterpret_cast<StepState*>(args.state.data));
  CudaCheck(cudaGetLastError(), "GradNorm");
}

}  // namespace coat
