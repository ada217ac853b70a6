// How the update reads and writes the moments of a group of 128: half a warp a group, eight
// elements a lane.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "worker/ops/cuda/adamw_table.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/precision/expansion.h"
#include "worker/precision/fp8.h"

namespace coat {

inline constexpr int kLaneElements = 8;
inline constexpr int kQuadDistance = 64;  // elements between the two quads of a lane

// The elements of a lane: two quads, at `at` and at `at` + 64. A whole group has all of them; of
// the last group of a tensor, or beyond it, the quads have n[0] and n[1] (0 to 4).
template <bool kWhole>
struct LanePlace {
  int64_t group = 0;
  int64_t at = 0;
  int n[2] = {4, 4};
  bool exists = true;  // the group; false only beyond a tensor

  __device__ int quad(int i) const { return kWhole ? 4 : n[i]; }
  __device__ bool has(int i) const { return kWhole || i % 4 < n[i / 4]; }
};

__device__ inline float Log2Normal(float x) {  // of zero: minus infinity
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Over the half of the warp that the lane is in; all lanes of the warp call.
__device__ inline uint32_t HalfWarpMax(uint32_t x) {
  const bool upper = (threadIdx.x & 16) != 0;
  const uint32_t a = __reduce_max_sync(0xffffffffu, upper ? 0u : x);
  const uint32_t b = __reduce_max_sync(0xffffffffu, upper ? x : 0u);
  return upper ? b : a;
}
__device__ inline uint32_t HalfWarpMin(uint32_t x) {
  const bool upper = (threadIdx.x & 16) != 0;
  const uint32_t a = __reduce_min_sync(0xffffffffu, upper ? 0xffffffffu : x);
  const uint32_t b = __reduce_min_sync(0xffffffffu, upper ? x : 0xffffffffu);
  return upper ? b : a;
}

template <typename F>
constexpr __nv_fp8_interpretation_t kHardwareFormat = F::kMantissaBits == 3 ? __NV_E4M3 : __NV_E5M2;

// Codes of four finite values.
template <typename F>
__device__ uint32_t EncodeFour(const float* y) {
  const uint32_t low =
      __nv_cvt_float2_to_fp8x2(make_float2(y[0], y[1]), __NV_SATFINITE, kHardwareFormat<F>);
  const uint32_t high =
      __nv_cvt_float2_to_fp8x2(make_float2(y[2], y[3]), __NV_SATFINITE, kHardwareFormat<F>);
  return low | (high << 16);
}

// n (0 to 4) FP32 or BF16 elements from `at` on; the others are zero.
__device__ inline void LoadFour(const void* base, bool bf16, int64_t at, int n, float* x) {
  if (n == 4 && !bf16) {
    const float4 v = *reinterpret_cast<const float4*>(static_cast<const float*>(base) + at);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    return;
  }
  if (n == 4) {
    const uint2 v = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(base) + at);
    x[0] = __uint_as_float(v.x << 16), x[1] = __uint_as_float(v.x & 0xffff0000u);
    x[2] = __uint_as_float(v.y << 16), x[3] = __uint_as_float(v.y & 0xffff0000u);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= n) {
      x[i] = 0.0f;
    } else if (bf16) {
      x[i] = FloatFromBf16(static_cast<const uint16_t*>(base)[at + i]);
    } else {
      x[i] = static_cast<const float*>(base)[at + i];
    }
  }
}

__device__ inline void StoreBf16(const uint16_t x[4], uint16_t* p, int n) {
  if (n == 4) {
    *reinterpret_cast<uint2*>(p) = make_uint2(x[0] | (static_cast<uint32_t>(x[1]) << 16),
                                              x[2] | (static_cast<uint32_t>(x[3]) << 16));
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < n) p[i] = x[i];
  }
}
// Rounds to nearest even where the elements are BF16.
__device__ inline void StoreFour(const float* x, void* base, bool bf16, int64_t at, int n) {
  if (bf16) {
    const uint16_t bits[4] = {Bf16Bits(x[0]), Bf16Bits(x[1]), Bf16Bits(x[2]), Bf16Bits(x[3])};
    StoreBf16(bits, static_cast<uint16_t*>(base) + at, n);
    return;
  }
  auto* p = static_cast<float*>(base) + at;
  if (n == 4) {
    *reinterpret_cast<float4*>(p) = make_float4(x[0], x[1], x[2], x[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < n) p[i] = x[i];
  }
}

// Two quads of codes.
template <bool kWhole>
__device__ uint2 LoadQuads(const void* values, const LanePlace<kWhole>& place) {
  const auto* p = static_cast<const uint8_t*>(values) + place.at;
  uint32_t codes[2] = {0, 0};
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const uint8_t* quad = p + q * kQuadDistance;
    if (place.quad(q) == 4) {
      codes[q] = *reinterpret_cast<const uint32_t*>(quad);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < place.quad(q)) codes[q] |= uint32_t{quad[i]} << (8 * i);
      }
    }
  }
  return make_uint2(codes[0], codes[1]);
}
template <bool kWhole>
__device__ void StoreQuads(const uint2& two, void* values, const LanePlace<kWhole>& place) {
  auto* p = static_cast<uint8_t*>(values) + place.at;
  const uint32_t codes[2] = {two.x, two.y};
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    uint8_t* quad = p + q * kQuadDistance;
    if (place.quad(q) == 4) {
      *reinterpret_cast<uint32_t*>(quad) = codes[q];
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < place.quad(q)) quad[i] = static_cast<uint8_t>(codes[q] >> (8 * i));
      }
    }
  }
}

// FP8 with dynamic range expansion (precision/expansion.h). kSigned: values may be negative.
template <typename F, bool kSigned>
struct ExpandedMoment {
  static constexpr bool kHasTable = true;

  // `table`: log2(|c| / F), minus infinity for code 0.
  template <bool kWhole>
  __device__ static void Load(const AdamWMoment& s, const LanePlace<kWhole>& place,
                              const float* table, float x[kLaneElements]) {
    if (!place.exists) {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) x[i] = 0.0f;
      return;
    }
    const uint2 codes = LoadQuads(s.values, place);
    const float a = s.amax[place.group];
    const float inverse_k = 16.0f * ReciprocalFlushed(static_cast<float>(s.k16[place.group]));
    if (ExpansionIsWide<F>(inverse_k)) {
      DecodeWide(codes.x, table, a, inverse_k, x);
      DecodeWide(codes.y, table, a, inverse_k, x + 4);
      return;
    }
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const uint32_t quad = i < 4 ? codes.x : codes.y;
      const int shift = 8 * (i % 4);
      const float magnitude = a * Exp2Flushed(table[(quad >> shift) & 0x7fu] * inverse_k);
      const uint32_t sign = kSigned ? (quad << (24 - shift)) & 0x80000000u : 0u;
      x[i] = __uint_as_float(__float_as_uint(magnitude) | sign);
    }
  }

  // Groups whose settings allow it take the short way: no zero among the elements, so that no code
  // needs care, and a k16 that an FP32 estimate settles. The others go by the definition.
  template <bool kWhole>
  __device__ static void Store(const AdamWMoment& s, const LanePlace<kWhole>& place,
                               const float x[kLaneElements]) {
    uint32_t most = 0, least = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const uint32_t m = kSigned ? MagnitudeBits(x[i]) : __float_as_uint(x[i]);
      most = max(most, m);
      least = min(least, m);
    }
    const float a = __uint_as_float(HalfWarpMax(most));
    const float b = __uint_as_float(HalfWarpMin(least));
    const Estimate estimate = EstimateK16(a, b);
    Encoded encoded;
    if (kWhole && __all_sync(0xffffffffu, estimate.settled)) {
      encoded = {Encode(x, a, static_cast<float>(estimate.k16) * 0.0625f), estimate.k16};
    } else {
      encoded = EncodeByDefinition(make_float4(x[0], x[1], x[2], x[3]),
                                   make_float4(x[4], x[5], x[6], x[7]), a);
    }
    StoreQuads(encoded.codes, s.values, place);
    if (threadIdx.x % 16 == 0 && place.exists) {
      s.amax[place.group] = a;
      s.k16[place.group] = static_cast<uint16_t>(encoded.k16);
    }
  }

 private:
  static constexpr float kLog2Max = static_cast<float>(PreciseLog2(double{F::kMaxValue}));
  static constexpr float kRange16 =
      static_cast<float>(16.0 * PreciseLog2(double{F::kMaxValue} * F::kMaxValue / 2));

  struct Estimate {
    uint32_t k16;
    bool settled;  // k16 is ExpansionK16's
  };
  struct Encoded {
    uint2 codes;
    uint32_t k16;
  };

  // For a/b in [2, 2^100] the FP32 estimate is off by less than 4e-7 of its value; 1e-3 covers its
  // largest, 490 (E5M2). The bounds of a and b keep reciprocals normal.
  __device__ static Estimate EstimateK16(float a, float b) {
    const float ratio = a * ReciprocalFlushed(b);
    const float estimate = kRange16 * ReciprocalFlushed(Log2Normal(ratio));
    const float whole = floorf(estimate);
    const float rest = estimate - whole;
    return {static_cast<uint32_t>(whole), b >= 0x1p-125f && a <= 0x1p125f && ratio >= 2.0f &&
                                              ratio <= 0x1p100f && rest > 1e-3f &&
                                              rest < 1.0f - 1e-3f};
  }

  // No element is zero, and k16 is not clamped: (b / a)^k >= 2 / F^2, so no code is zero either.
  __device__ static uint2 Encode(const float x[kLaneElements], float a, float k) {
    const float inverse = ReciprocalFlushed(a);
    float y[kLaneElements];
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const float magnitude =
          Exp2Flushed(__fmaf_rn(k, Log2Normal(fabsf(x[i]) * inverse), kLog2Max));
      y[i] = kSigned ? copysignf(magnitude, x[i]) : magnitude;
    }
    return make_uint2(EncodeFour<F>(y), EncodeFour<F>(y + 4));
  }

  // Elements beyond the tensor are zeros, which change neither range nor codes.
  __device__ __noinline__ static Encoded EncodeByDefinition(float4 low, float4 high, float a) {
    const float x[kLaneElements] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t least = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) least = min(least, MagnitudeBits(x[i]) - 1u);
    const float b = __uint_as_float(HalfWarpMin(least) + 1u);  // zero wraps to the top
    if (a == 0.0f) return {make_uint2(0, 0), kExpansionOne};
    const uint32_t k16 = ExpansionK16<F>(a, b);
    const float k = static_cast<float>(k16) * 0.0625f;
    uint2 codes = make_uint2(0, 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      codes.x |= ExpansionEncode<F>(x[i], a, k) << (8 * i);
      codes.y |= ExpansionEncode<F>(x[i + 4], a, k) << (8 * i);
    }
    return {codes, k16};
  }

  __device__ __noinline__ static float4 DecodeWide(uint32_t codes, const float* table, float a,
                                                   float inverse_k) {
    const auto decode = [&](int i) {
      const uint32_t code = (codes >> (8 * i)) & 0xffu;
      return ExpansionDecodeWide(code, table[code & 0x7fu], a, inverse_k);
    };
    return make_float4(decode(0), decode(1), decode(2), decode(3));
  }
  __device__ static void DecodeWide(uint32_t codes, const float* table, float a, float inverse_k,
                                    float* x) {
    const float4 wide = DecodeWide(codes, table, a, inverse_k);
    x[0] = wide.x, x[1] = wide.y, x[2] = wide.z, x[3] = wide.w;
  }
};

// FP8 with one scale a group.
template <typename F, bool kSigned>
struct ScaledMoment {
  static constexpr bool kHasTable = false;

  template <bool kWhole>
  __device__ static void Load(const AdamWMoment& s, const LanePlace<kWhole>& place, const float*,
                              float x[kLaneElements]) {
    const uint2 codes = LoadQuads(s.values, place);
    const float scale = place.exists ? s.amax[place.group] : 0.0f;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const uint32_t quad = i < 4 ? codes.x : codes.y;
      x[i] = Fp8Decode<F>(static_cast<uint8_t>(quad >> (8 * (i % 4)))) * scale;
    }
  }

  template <bool kWhole>
  __device__ static void Store(const AdamWMoment& s, const LanePlace<kWhole>& place,
                               const float x[kLaneElements]) {
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) most = max(most, MagnitudeBits(x[i]));
    const float scale = TensorScale<F>(__uint_as_float(HalfWarpMax(most)));
    const float inverse = InverseScale(scale);
    float y[kLaneElements];
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) y[i] = fabsf(x[i]) * inverse;
    const uint2 codes = make_uint2(WithSignsAndZeros(EncodeFour<F>(y), x),
                                   WithSignsAndZeros(EncodeFour<F>(y + 4), x + 4));
    StoreQuads(codes, s.values, place);
    if (threadIdx.x % 16 == 0 && place.exists) s.amax[place.group] = scale;
  }

 private:
  // `codes` are of magnitudes: a non-zero x takes at least the smallest code, zero takes zero.
  __device__ static uint32_t WithSignsAndZeros(uint32_t codes, const float* x) {
    uint32_t smallest = 0, signs = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      smallest |= x[i] != 0.0f ? 1u << (8 * i) : 0u;
      signs |= ((__float_as_uint(x[i]) >> 24) & 0x80u) << (8 * i);
    }
    // Zero has code 0 already, and no sign.
    return __vmaxu4(codes, smallest) | (signs & (smallest << 7));
  }
};

// FP32 or BF16.
template <bool kBf16>
struct PlainMoment {
  static constexpr bool kHasTable = false;

  template <bool kWhole>
  __device__ static void Load(const AdamWMoment& s, const LanePlace<kWhole>& place, const float*,
                              float x[kLaneElements]) {
    LoadFour(s.values, kBf16, place.at, place.quad(0), x);
    LoadFour(s.values, kBf16, place.at + kQuadDistance, place.quad(1), x + 4);
  }
  template <bool kWhole>
  __device__ static void Store(const AdamWMoment& s, const LanePlace<kWhole>& place,
                               const float x[kLaneElements]) {
    StoreFour(x, s.values, kBf16, place.at, place.quad(0));
    StoreFour(x + 4, s.values, kBf16, place.at + kQuadDistance, place.quad(1));
  }
};

}  // namespace coat
