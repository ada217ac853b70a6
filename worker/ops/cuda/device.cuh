// Device-side building blocks: 16-element group loads and stores, FP8 conversion by the hardware
// instructions (bitwise the rules of precision/fp8.h), reductions in fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "worker/precision/fp8.h"
#include "worker/precision/fused.h"
#include "worker/tensor/tensor.h"

namespace coat {

inline constexpr int kGroup = 16;  // elements that share a 1x16 scale; one thread's unit of work

// 16 values of one row in registers; entries at and beyond `n` are zero.
struct Group16 {
  float v[kGroup];
};

// Bf16FromFloat and RoundToBf16 by the hardware instruction.
__device__ inline uint16_t Bf16Bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ inline float Bf16Rounded(float x) { return FloatFromBf16(Bf16Bits(x)); }

__device__ inline Group16 LoadGroup(const uint16_t* p, int n, bool aligned) {
  Group16 g;
  if (aligned && n == kGroup) {
    const uint4 a = *reinterpret_cast<const uint4*>(p);
    const uint4 b = *reinterpret_cast<const uint4*>(p + 8);
    const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      g.v[2 * i] = __uint_as_float(w[i] << 16);
      g.v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
    return g;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) g.v[i] = i < n ? FloatFromBf16(p[i]) : 0.0f;
  return g;
}

__device__ inline Group16 LoadGroup(const float* p, int n, bool aligned) {
  Group16 g;
  if (aligned && n == kGroup) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 a = reinterpret_cast<const float4*>(p)[i];
      g.v[4 * i] = a.x;
      g.v[4 * i + 1] = a.y;
      g.v[4 * i + 2] = a.z;
      g.v[4 * i + 3] = a.w;
    }
    return g;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) g.v[i] = i < n ? p[i] : 0.0f;
  return g;
}

__device__ inline void StoreGroup(const Group16& g, uint16_t* p, int n, bool aligned) {
  if (aligned && n == kGroup) {
    uint32_t w[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      w[i] = Bf16Bits(g.v[2 * i]) | (static_cast<uint32_t>(Bf16Bits(g.v[2 * i + 1])) << 16);
    }
    reinterpret_cast<uint4*>(p)[0] = make_uint4(w[0], w[1], w[2], w[3]);
    reinterpret_cast<uint4*>(p + 8)[0] = make_uint4(w[4], w[5], w[6], w[7]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (i < n) p[i] = Bf16Bits(g.v[i]);
  }
}

// The hardware conversion saturates infinities; the rules want 0x7F for them, as for NaN.
template <DType kFormat>
__device__ inline uint32_t EncodePair(float lo, float hi) {
  constexpr __nv_fp8_interpretation_t kKind = kFormat == DType::kE5M2 ? __NV_E5M2 : __NV_E4M3;
  const uint32_t pair = __nv_cvt_float2_to_fp8x2(make_float2(lo, hi), __NV_SATFINITE, kKind);
  const uint32_t low = fabsf(lo) <= 3.402823466e38f ? (pair & 0xffu) : 0x7fu;
  const uint32_t high = fabsf(hi) <= 3.402823466e38f ? (pair & 0xff00u) : 0x7f00u;
  return low | high;
}

// Codes of 16 values times `inverse` (= RN(1 / scale)), rounded to FP32 first.
template <DType kFormat>
__device__ inline uint4 EncodeGroup(const Group16& g, float inverse) {
  uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* v = g.v + 4 * i;
    w[i] = EncodePair<kFormat>(__fmul_rn(v[0], inverse), __fmul_rn(v[1], inverse)) |
           (EncodePair<kFormat>(__fmul_rn(v[2], inverse), __fmul_rn(v[3], inverse)) << 16);
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

__device__ inline Group16 DecodeGroup(const uint4& codes) {
  const uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
  Group16 g;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(w[i / 2] >> (16 * (i % 2)));
    const float2 f = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
    g.v[2 * i] = f.x;
    g.v[2 * i + 1] = f.y;
  }
  return g;
}

__device__ inline uint4 LoadCodes(const uint8_t* p, int n, bool aligned) {
  if (aligned && n == kGroup) return *reinterpret_cast<const uint4*>(p);
  uint32_t w[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (i < n) w[i / 4] |= static_cast<uint32_t>(p[i]) << (8 * (i % 4));
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

__device__ inline void StoreCodes(const uint4& codes, uint8_t* p, int n, bool aligned) {
  if (aligned && n == kGroup) {
    *reinterpret_cast<uint4*>(p) = codes;
    return;
  }
  const uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (i < n) p[i] = static_cast<uint8_t>(w[i / 4] >> (8 * (i % 4)));
  }
}

__device__ inline uint32_t GroupMagnitude(const Group16& g) {
  uint32_t m = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) m = max(m, MagnitudeBits(g.v[i]));
  return m;
}

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

// 2^x and 1/x by the special function unit: relative errors below 2^-21, subnormals kept, zero and
// infinity exact.
__device__ inline float Exp2Approx(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float ReciprocalApprox(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// SwigluValue and SwigluBackwardValue (precision/fused.h) with the approximations above. Forward,
// recomputation and amax all use these, so they round alike.
__device__ inline float SigmoidApprox(float x) {
  return ReciprocalApprox(1.0f + Exp2Approx(x * -1.44269504f));
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

// A 1x16 activation or a BF16 one, read as 16 FP32 values of a row.
struct DeviceActivation {
  const uint16_t* bf16 = nullptr;
  const uint8_t* codes = nullptr;
  const uint16_t* scales = nullptr;
  int64_t cols = 0;
  int64_t scale_cols = 0;
  bool aligned = false;

  // `group`: index into the row's scales; `col`: first element.
  __device__ Group16 Load(int64_t row, int64_t col, int64_t group, int n) const {
    if (bf16 != nullptr) return LoadGroup(bf16 + row * cols + col, n, aligned);
    Group16 g = DecodeGroup(LoadCodes(codes + row * cols + col, n, aligned));
    const float s = FloatFromBf16(scales[row * scale_cols + group]);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) g.v[i] = __fmul_rn(g.v[i], s);
    return g;
  }
};

}  // namespace coat
