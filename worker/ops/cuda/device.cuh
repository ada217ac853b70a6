// Device-side building blocks: groups of 16 (group.cuh), reductions in fixed order, approximations
// by the special function unit.
#pragma once

#include "worker/ops/cuda/group.cuh"
#include "worker/precision/fused.h"

namespace coat {

__device__ inline float WarpSum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

__device__ inline uint32_t WarpMax(uint32_t x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = max(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  return x;
}

// All threads of the block call; all get the result. `scratch`: 33 words of shared memory.
__device__ inline float BlockSum(float x, float* scratch) {
  x = WarpSum(x);
  const int warps = (blockDim.x + 31) / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    float y = threadIdx.x < warps ? scratch[threadIdx.x] : 0.0f;
    y = WarpSum(y);
    if (threadIdx.x == 0) scratch[32] = y;
  }
  __syncthreads();
  return scratch[32];
}

// Sum of x[0..count), in one fixed order, by one block of kSumInOrderThreads; thread 0 has it. FP64
// partial sums: a long row of equal values must not stall.
constexpr int kSumInOrderThreads = 1024;

__device__ inline double BlockSumInOrder(const float* x, int64_t count) {
  __shared__ double sums[kSumInOrderThreads];
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kSumInOrderThreads) sum += x[i];
  sums[threadIdx.x] = sum;
  for (int half = kSumInOrderThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

__device__ inline uint32_t BlockMax(uint32_t x, uint32_t* scratch) {
  x = WarpMax(x);
  const int warps = (blockDim.x + 31) / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    uint32_t y = threadIdx.x < warps ? scratch[threadIdx.x] : 0u;
    y = WarpMax(y);
    if (threadIdx.x == 0) scratch[32] = y;
  }
  __syncthreads();
  return scratch[32];
}

// 2^x and 1/x by the special function unit, one instruction each: relative errors below 2^-21,
// subnormals flushed to zero, zero and infinity exact.
__device__ inline float Exp2Flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float ReciprocalFlushed(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// SwigluValue and SwigluBackwardValue (precision/fused.h) with the approximations above. Forward,
// recomputation and amax all use these, so they round alike.
__device__ inline float SigmoidApprox(float x) {
  return ReciprocalFlushed(1.0f + Exp2Flushed(x * -1.44269504f));
}
__device__ inline float SwigluApprox(float gate, float up) {
  return (gate * SigmoidApprox(gate)) * up;
}
__device__ inline SwigluGradient SwigluBackwardApprox(float gate, float up, float dy) {
  const float sigmoid = SigmoidApprox(gate);
  const float silu = gate * sigmoid;
  SwigluGradient out;
  out.gate = (dy * up) * fmaf(silu, 1.0f - sigmoid, sigmoid);
  out.up = dy * silu;
  return out;
}

}  // namespace coat
