// Groups of 16 elements of a row: loads, stores, magnitudes, and FP8 conversion by the hardware
// instructions (bitwise the rules of precision/fp8.h).
//
// Kernels come in two variants. With kWhole every row is made of whole groups at multiples of 16
// elements: loads and stores are vectors, and all tests of n fold away. Without it a group has n
// elements (at most 16) at any place.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "worker/precision/fp8.h"
#include "worker/tensor/tensor.h"

namespace coat {

inline constexpr int kGroup = 16;  // elements that share a 1x16 scale; one thread's unit of work
inline constexpr float kLargestFloat = 3.402823466e38f;

// 16 values in registers; entries at and beyond n are zero.
struct Group16 {
  float v[kGroup];
};
// The same as pairs of BF16, the lower half first.
struct Packed16 {
  uint32_t w[kGroup / 2];
};

// Elements of a group that begins `rest` elements before the end of its row.
template <bool kWhole>
__device__ inline int GroupCount(int64_t rest) {
  return kWhole ? kGroup : static_cast<int>(min(static_cast<int64_t>(kGroup), rest));
}

// Bf16FromFloat and RoundToBf16 by the hardware instruction.
__device__ inline uint16_t Bf16Bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ inline float Bf16Rounded(float x) { return FloatFromBf16(Bf16Bits(x)); }

__device__ inline Packed16 Pack(const Group16& g) {
  Packed16 p;
#pragma unroll
  for (int i = 0; i < kGroup / 2; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(g.v[2 * i], g.v[2 * i + 1]);
    p.w[i] = *reinterpret_cast<const uint32_t*>(&pair);
  }
  return p;
}

__device__ inline Group16 Unpack(const Packed16& p) {
  Group16 g;
#pragma unroll
  for (int i = 0; i < kGroup / 2; ++i) {
    g.v[2 * i] = __uint_as_float(p.w[i] << 16);
    g.v[2 * i + 1] = __uint_as_float(p.w[i] & 0xffff0000u);
  }
  return g;
}

template <bool kWhole>
__device__ inline Packed16 LoadPacked(const uint16_t* p, int n) {
  if constexpr (kWhole) {
    const uint4 a = reinterpret_cast<const uint4*>(p)[0];
    const uint4 b = reinterpret_cast<const uint4*>(p)[1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  } else {
    Packed16 x;
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
      x.w[i] = (2 * i < n ? p[2 * i] : 0u) | (2 * i + 1 < n ? p[2 * i + 1] : 0u) << 16;
    }
    return x;
  }
}

template <bool kWhole>
__device__ inline void StorePacked(const Packed16& x, uint16_t* p, int n) {
  if constexpr (kWhole) {
    reinterpret_cast<uint4*>(p)[0] = make_uint4(x.w[0], x.w[1], x.w[2], x.w[3]);
    reinterpret_cast<uint4*>(p)[1] = make_uint4(x.w[4], x.w[5], x.w[6], x.w[7]);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) p[i] = static_cast<uint16_t>(x.w[i / 2] >> (16 * (i % 2)));
    }
  }
}

template <bool kWhole>
__device__ inline Group16 LoadGroup(const uint16_t* p, int n) {
  return Unpack(LoadPacked<kWhole>(p, n));
}

template <bool kWhole>
__device__ inline Group16 LoadGroup(const float* p, int n) {
  Group16 g;
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 a = reinterpret_cast<const float4*>(p)[i];
      g.v[4 * i] = a.x;
      g.v[4 * i + 1] = a.y;
      g.v[4 * i + 2] = a.z;
      g.v[4 * i + 3] = a.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) g.v[i] = i < n ? p[i] : 0.0f;
  }
  return g;
}

template <bool kWhole>
__device__ inline void StoreGroup(const Group16& g, uint16_t* p, int n) {
  StorePacked<kWhole>(Pack(g), p, n);
}

// The larger magnitude; NaN when either is NaN.
__device__ inline float MaxMagnitude(float magnitude, float x) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(magnitude), "f"(fabsf(x)));
  return y;
}

// Largest magnitude of the group; NaN when there is one.
__device__ inline float GroupMagnitude(const Group16& g) {
  float m = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) m = MaxMagnitude(m, g.v[i]);
  return m;
}
__device__ inline float GroupMagnitude(const Packed16& p) {
  __nv_bfloat162 m = __habs2(reinterpret_cast<const __nv_bfloat162&>(p.w[0]));
#pragma unroll
  for (int i = 1; i < kGroup / 2; ++i) {
    m = __hmax2_nan(m, __habs2(reinterpret_cast<const __nv_bfloat162&>(p.w[i])));
  }
  return MaxMagnitude(__low2float(m), __high2float(m));
}

// Four codes, the first in the lowest byte.
template <DType kFormat>
__device__ inline uint32_t EncodeFour(const float* x) {
  uint32_t codes;
  if constexpr (kFormat == DType::kE5M2) {
    asm("{ .reg .b16 lo, hi; cvt.rn.satfinite.e5m2x2.f32 lo, %2, %1; "
        "cvt.rn.satfinite.e5m2x2.f32 hi, %4, %3; mov.b32 %0, {lo, hi}; }"
        : "=r"(codes)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
  } else {
    asm("{ .reg .b16 lo, hi; cvt.rn.satfinite.e4m3x2.f32 lo, %2, %1; "
        "cvt.rn.satfinite.e4m3x2.f32 hi, %4, %3; mov.b32 %0, {lo, hi}; }"
        : "=r"(codes)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
  }
  return codes;
}

// The hardware conversion saturates infinities and keeps the sign of NaN; the rules want 0x7F for
// both.
template <DType kFormat>
__device__ inline uint4 ReplaceNonfinite(const Group16& scaled, uint4 codes) {
  uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (fabsf(scaled.v[i]) <= kLargestFloat) continue;
    const int shift = 8 * (i % 4);
    w[i / 4] = (w[i / 4] & ~(0xffu << shift)) | 0x7fu << shift;
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// Codes of 16 values times `inverse` (= RN(1 / scale)), rounded to FP32 first. `magnitude`: the
// group's (GroupMagnitude).
template <DType kFormat>
__device__ inline uint4 EncodeGroup(Group16 g, float inverse, float magnitude) {
#pragma unroll
  for (int i = 0; i < kGroup; ++i) g.v[i] = __fmul_rn(g.v[i], inverse);
  const uint4 codes = make_uint4(EncodeFour<kFormat>(g.v), EncodeFour<kFormat>(g.v + 4),
                                 EncodeFour<kFormat>(g.v + 8), EncodeFour<kFormat>(g.v + 12));
  if (__fmul_rn(magnitude, inverse) <= kLargestFloat) [[likely]]
    return codes;
  return ReplaceNonfinite<kFormat>(g, codes);
}
template <DType kFormat>
__device__ inline uint4 EncodeGroup(const Group16& g, float inverse) {
  return EncodeGroup<kFormat>(g, inverse, GroupMagnitude(g));
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

template <bool kWhole>
__device__ inline uint4 LoadCodes(const uint8_t* p, int n) {
  if constexpr (kWhole) {
    return *reinterpret_cast<const uint4*>(p);
  } else {
    uint32_t w[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) w[i / 4] |= static_cast<uint32_t>(p[i]) << (8 * (i % 4));
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
}

template <bool kWhole>
__device__ inline void StoreCodes(const uint4& codes, uint8_t* p, int n) {
  if constexpr (kWhole) {
    *reinterpret_cast<uint4*>(p) = codes;
  } else {
    const uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) p[i] = static_cast<uint8_t>(w[i / 4] >> (8 * (i % 4)));
    }
  }
}

// A 1x16 activation or a BF16 one, read as 16 FP32 values of a row.
struct DeviceActivation {
  const uint16_t* bf16 = nullptr;
  const uint8_t* codes = nullptr;
  const uint16_t* scales = nullptr;
  int64_t cols = 0;
  int64_t scale_cols = 0;
  bool whole = false;  // rows of whole groups

  // `group`: index into the row's scales; `col`: first element.
  template <bool kWhole>
  __device__ Group16 Load(int64_t row, int64_t col, int64_t group, int n) const {
    if (bf16 != nullptr) return LoadGroup<kWhole>(bf16 + row * cols + col, n);
    Group16 g = DecodeGroup(LoadCodes<kWhole>(codes + row * cols + col, n));
    const float s = FloatFromBf16(scales[row * scale_cols + group]);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) g.v[i] = __fmul_rn(g.v[i], s);
    return g;
  }
};

}  // namespace coat
