// AdamW over all tensors in one launch: a warp a group of 128, four elements a lane.
#include <vector>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cpu/philox.h"
#include "worker/ops/cuda/adamw_table.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/precision/adamw_update.h"
#include "worker/precision/expansion.h"

namespace coat {
namespace {

constexpr int kThreads = 256;
constexpr int kChunkGroups = 256;  // a block's share: 32 groups a warp

struct Scalars {
  float lr, beta1, beta2, eps, weight_decay;
  uint64_t seed;
};

__device__ inline float Log2Normal(float x) {  // of zero: minus infinity
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// A result below 2^-126 becomes zero; where it is used, that result would mean the same.
__device__ inline float Exp2Flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <typename F>
constexpr __nv_fp8_interpretation_t kHardwareFormat = F::kMantissaBits == 3 ? __NV_E4M3 : __NV_E5M2;

// ExpansionK16, bit for bit, mostly without FP64: an FP32 estimate settles the floor unless it lies
// near a whole number. For a/b in [2, 2^100] the estimate is off by less than 4e-7 of its value
// and 1e-3 covers its largest value, 490 (E5M2).
template <typename F>
__device__ __noinline__ uint32_t PreciseK16(float a, float b) {
  return ExpansionK16<F>(a, b);
}
template <typename F>
__device__ inline uint32_t FastK16(float a, float b) {
  constexpr float kRange16 =
      static_cast<float>(16.0 * PreciseLog2(double{F::kMaxValue} * F::kMaxValue / 2));
  const float ratio = __fdividef(a, b);  // b below 2^126 where the result counts
  if (ratio >= 2.0f && ratio <= 0x1p100f) {
    const float estimate = __fdividef(kRange16, Log2Normal(ratio));
    const float whole = floorf(estimate);
    const float rest = estimate - whole;
    if (whole >= 1.0f && rest > 1e-3f && rest < 1.0f - 1e-3f) return static_cast<uint32_t>(whole);
  }
  return PreciseK16<F>(a, b);
}

// AdamWElement (precision/adamw_update.h) with an approximate root and quotient: the step is off by
// less than 2^-20 of its value, the moments are the same bits.
__device__ inline float AdamWStep(const AdamWCoefficients& c, float weight_decay, float p, float g,
                                  float* m, float* v) {
  const float scaled = g * c.grad_factor;
  *m = c.beta1 * *m + c.one_minus_beta1 * scaled;
  *v = c.beta2 * *v + c.one_minus_beta2 * (scaled * scaled);
  float root, inverse;  // a subnormal v has no weight beside eps
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(*v * c.correction2));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(root + c.eps));
  const float ratio = (*m * c.correction1) * inverse;
  return c.lr * (ratio + weight_decay * p);
}

struct Range {
  uint32_t largest, smallest;  // magnitude bits; smallest non-zero one
};
__device__ inline Range GroupRange(const float x[4]) {
  uint32_t most = 0, least = 0xffffffffu;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t m = MagnitudeBits(x[i]);
    most = max(most, m);
    least = min(least, m - 1u);  // zero wraps to the top
  }
  most = __reduce_max_sync(0xffffffffu, most);
  least = __reduce_min_sync(0xffffffffu, least);
  return {most, most == 0 ? 0u : least + 1u};
}

// FP8 moments; `table`: log2(|c| / F) in shared memory.
template <typename F, bool kExpanded>
struct Fp8Moment {
  __device__ static void Load(const AdamWMoment& s, int64_t group, int64_t at, int n,
                              const float* table, float x[4]) {
    uint32_t codes = 0;
    const auto* p = static_cast<const uint8_t*>(s.values) + at;
    if (n == 4) {
      codes = *reinterpret_cast<const uint32_t*>(p);
    } else {
      for (int i = 0; i < n; ++i) codes |= static_cast<uint32_t>(p[i]) << (8 * i);
    }
    const float a = s.amax[group];
    if constexpr (!kExpanded) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = Fp8Decode<F>(static_cast<uint8_t>(codes >> (8 * i))) * a;
      }
      return;
    }
    const float inverse_k = 16.0f / static_cast<float>(s.k16[group]);
    if (ExpansionIsWide<F>(inverse_k)) {  // the same for the whole warp
      const float4 wide = DecodeWide(codes, a, inverse_k, table);
      x[0] = wide.x, x[1] = wide.y, x[2] = wide.z, x[3] = wide.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t magnitude_code = (codes >> (8 * i)) & 0x7fu;
      const uint32_t sign = (codes << (24 - 8 * i)) & 0x80000000u;
      const float magnitude = a * Exp2Flushed(table[magnitude_code] * inverse_k);
      x[i] = magnitude_code == 0 ? 0.0f : __uint_as_float(__float_as_uint(magnitude) | sign);
    }
  }

  __device__ __noinline__ static float4 DecodeWide(uint32_t codes, float a, float inverse_k,
                                                   const float* table) {
    const auto decode = [&](int i) {
      const uint32_t code = (codes >> (8 * i)) & 0xffu;
      return ExpansionDecodeWide(code, table[code & 0x7fu], a, inverse_k);
    };
    return make_float4(decode(0), decode(1), decode(2), decode(3));
  }

  // Moments are finite whenever an update is applied.
  __device__ static uint32_t EncodeFour(const float y[4]) {
    const uint32_t low =
        __nv_cvt_float2_to_fp8x2(make_float2(y[0], y[1]), __NV_SATFINITE, kHardwareFormat<F>);
    const uint32_t high =
        __nv_cvt_float2_to_fp8x2(make_float2(y[2], y[3]), __NV_SATFINITE, kHardwareFormat<F>);
    return low | (high << 16);
  }

  // `codes` are of magnitudes: a non-zero x takes at least the smallest code, zero takes zero.
  __device__ static uint32_t WithSignsAndZeros(uint32_t codes, const float x[4]) {
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(x[i]);
    const uint32_t low = __byte_perm(bits[0], bits[1], 0x0073);
    const uint32_t high = __byte_perm(bits[2], bits[3], 0x0073);
    const uint32_t signs = __byte_perm(low, high, 0x5410) & 0x80808080u;
    uint32_t smallest = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) smallest |= x[i] != 0.0f ? 1u << (8 * i) : 0u;
    // Zero has code 0 already, and no sign.
    return __vmaxu4(codes, smallest) | (signs & (smallest << 7));
  }

  // Step 4 of the encoding where a reciprocal or a ratio may leave the normal range.
  __device__ __noinline__ static float4 ExpandExtreme(float4 x, float a, float k) {
    const auto expand = [&](float value) {
      return F::kMaxValue * FastExp2(k * FastLog2(fabsf(value) / a));
    };
    return make_float4(expand(x.x), expand(x.y), expand(x.z), expand(x.w));
  }

  __device__ static void Store(const AdamWMoment& s, int64_t group, int64_t at, int n,
                               const float x[4]) {
    const Range range = GroupRange(x);
    const float a = __uint_as_float(range.largest);
    float scale = a;
    uint32_t k16 = kExpansionOne;
    float y[4];
    if constexpr (kExpanded) {
      const float smallest = __uint_as_float(range.smallest);
      if (range.largest != 0) k16 = FastK16<F>(a, smallest);
      const float k = static_cast<float>(k16) * 0.0625f;
      if (a < 0x1p-40f && (a < 0x1p-100f || smallest < 0x1p-120f * a)) {
        const float4 extreme = ExpandExtreme(make_float4(x[0], x[1], x[2], x[3]), a, k);
        y[0] = extreme.x, y[1] = extreme.y, y[2] = extreme.z, y[3] = extreme.w;
      } else {
        const float inverse = 1.0f / a;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          y[i] = F::kMaxValue * Exp2Flushed(k * Log2Normal(fabsf(x[i]) * inverse));
        }
      }
    } else {
      scale = TensorScale<F>(a);
      const float inverse = InverseScale(scale);
#pragma unroll
      for (int i = 0; i < 4; ++i) y[i] = fabsf(x[i]) * inverse;
    }
    const uint32_t codes = WithSignsAndZeros(EncodeFour(y), x);
    auto* p = static_cast<uint8_t*>(s.values) + at;
    if (n == 4) {
      *reinterpret_cast<uint32_t*>(p) = codes;
    } else {
      for (int i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(codes >> (8 * i));
    }
    if (threadIdx.x % 32 == 0) {
      s.amax[group] = scale;
      if (kExpanded) s.k16[group] = static_cast<uint16_t>(k16);
    }
  }
};

template <typename Value>
struct PlainMoment {
  __device__ static void Load(const AdamWMoment& s, int64_t, int64_t at, int n, const float*,
                              float x[4]) {
    const auto* p = static_cast<const Value*>(s.values) + at;
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(Value) == 4) {
        x[i] = i < n ? p[i] : 0.0f;
      } else {
        x[i] = i < n ? FloatFromBf16(p[i]) : 0.0f;
      }
    }
  }
  __device__ static void Store(const AdamWMoment& s, int64_t, int64_t at, int n, const float x[4]) {
    auto* p = static_cast<Value*>(s.values) + at;
    for (int i = 0; i < n; ++i) {
      if constexpr (sizeof(Value) == 4) {
        p[i] = x[i];
      } else {
        p[i] = Bf16Bits(x[i]);
      }
    }
  }
};

__device__ inline void LoadFour(const void* base, bool bf16, int64_t at, int n, float x[4]) {
  if (n == 4 && !bf16) {
    const float4 v = *reinterpret_cast<const float4*>(static_cast<const float*>(base) + at);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    return;
  }
  if (n == 4) {
    const auto* p = reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(base) + at);
    const uint2 v = *p;
    x[0] = __uint_as_float(v.x << 16), x[1] = __uint_as_float(v.x & 0xffff0000u);
    x[2] = __uint_as_float(v.y << 16), x[3] = __uint_as_float(v.y & 0xffff0000u);
    return;
  }
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

__device__ inline void StoreBf16(uint16_t* p, const uint16_t x[4], int n) {
  if (n == 4) {
    *reinterpret_cast<uint2*>(p) = make_uint2(x[0] | (static_cast<uint32_t>(x[1]) << 16),
                                              x[2] | (static_cast<uint32_t>(x[3]) << 16));
    return;
  }
  for (int i = 0; i < n; ++i) p[i] = x[i];
}

// Writes the new weights; returns them as stored.
__device__ inline void StoreParam(const AdamWEntry& e, int64_t at, int n, float p[4], uint64_t seed,
                                  int32_t t) {
  if (!e.param_bf16) {
    auto* out = static_cast<float*>(e.param) + at;
    if (n == 4) {
      *reinterpret_cast<float4*>(out) = make_float4(p[0], p[1], p[2], p[3]);
    } else {
      for (int i = 0; i < n; ++i) out[i] = p[i];
    }
    return;
  }
  const PhiloxBlock words = RoundingWords(seed, (e.element_offset + at) / 4, e.id, t);
  uint16_t bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits[i] = StochasticBf16(p[i], words.word[i]);
    p[i] = FloatFromBf16(bits[i]);
  }
  StoreBf16(static_cast<uint16_t*>(e.param) + at, bits, n);
}

__global__ void PrepareKernel(const AdamWEntry* entries, int count, Scalars s, StepState* state,
                              AdamWCoefficients* coefficients) {
  if (state->apply == 0) return;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    if (entries[i].weight_amax != nullptr) *entries[i].weight_amax = 0.0f;
  }
  if (threadIdx.x != 0) return;
  state->t += 1;
  state->update_sq = 0;
  state->weight_sq = 0;
  *coefficients = MakeAdamWCoefficients(s.lr, s.beta1, s.beta2, s.eps, s.weight_decay,
                                        state->clip_factor, state->t);
}

// The last entry whose first chunk is not beyond this block.
__device__ inline int FindEntry(const AdamWEntry* entries, int count) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (entries[middle].first_chunk <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

template <typename M, typename V>
__global__ void __launch_bounds__(kThreads, 4)
    AdamWKernel(const AdamWEntry* entries, int count, uint64_t seed,
                const AdamWCoefficients* coefficients, StepState* state,
                __grid_constant__ const ExpansionTable ratios_m,
                __grid_constant__ const ExpansionTable ratios_v) {
  __shared__ float table_m[128];
  __shared__ float table_v[128];
  __shared__ float scratch[33];
  __shared__ AdamWEntry e;  // shared, not in registers: read now and then by all threads alike
  __shared__ AdamWCoefficients c;
  if (state->apply == 0) return;
  for (int i = threadIdx.x; i < 128; i += blockDim.x) {
    table_m[i] = ratios_m.log2_ratio[i];
    table_v[i] = ratios_v.log2_ratio[i];
  }
  if (threadIdx.x == 0) {
    e = entries[FindEntry(entries, count)];
    c = *coefficients;
  }
  __syncthreads();
  const float decay = e.decay ? c.weight_decay : 0.0f;
  const int32_t t = state->t;
  const int lane = threadIdx.x % 32;
  const int64_t first_group = (blockIdx.x - e.first_chunk) * static_cast<int64_t>(kChunkGroups);
  float update_sq = 0, weight_sq = 0;
  uint32_t largest = 0;
  const auto update = [&](int64_t group, int64_t at, int n) {
    float p[4], grad[4], m[4], v[4];
    LoadFour(e.param, e.param_bf16, at, n, p);
    LoadFour(e.grad, e.grad_bf16, at, n, grad);
    M::Load(e.m, group, at, n, table_m, m);
    V::Load(e.v, group, at, n, table_v, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float step = AdamWStep(c, decay, p[i], grad[i], &m[i], &v[i]);
      p[i] = p[i] - step;
      if (i >= n) p[i] = m[i] = v[i] = 0.0f;
      update_sq += i < n ? step * step : 0.0f;
    }
    M::Store(e.m, group, at, n, m);
    V::Store(e.v, group, at, n, v);
    StoreParam(e, at, n, p, seed, t);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weight_sq += p[i] * p[i];
      largest = max(largest, MagnitudeBits(p[i]));
    }
    if (e.copy == nullptr) return;
    uint16_t copy[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) copy[i] = Bf16Bits(p[i]);
    StoreBf16(e.copy + at, copy, n);
  };
  const int64_t whole_groups = e.count / kExpansionGroup;
  const int64_t all_groups = (e.count + kExpansionGroup - 1) / kExpansionGroup;
  for (int g = threadIdx.x / 32; g < kChunkGroups; g += kThreads / 32) {
    const int64_t group = first_group + g;
    const int64_t at = group * kExpansionGroup + lane * 4;
    if (group < whole_groups) {
      update(group, at, 4);
    } else if (group < all_groups) {
      update(group, at, static_cast<int>(max(int64_t{0}, min(int64_t{4}, e.count - at))));
    }
  }
  update_sq = BlockSum(update_sq, scratch);
  weight_sq = BlockSum(weight_sq, scratch);
  largest = BlockMax(largest, reinterpret_cast<uint32_t*>(scratch));
  if (threadIdx.x != 0) return;
  atomicAdd(&state->update_sq, update_sq);
  atomicAdd(&state->weight_sq, weight_sq);
  if (e.weight_amax != nullptr) atomicMax(reinterpret_cast<unsigned*>(e.weight_amax), largest);
}

const ExpansionTable& Ratios(DType format) {
  return format == DType::kE5M2 ? kExpansionTable<E5M2> : kExpansionTable<E4M3>;
}

AdamWMoment MakeMoment(const Moment& m) {
  return {m.values.data, m.amax.as<float>(), m.k16.as<uint16_t>()};
}

}  // namespace

std::vector<AdamWEntry> MakeAdamWTable(std::span<const AdamWTensor> tensors, int64_t* chunks) {
  std::vector<AdamWEntry> table;
  *chunks = 0;
  for (const AdamWTensor& t : tensors) {
    if (t.param.numel() == 0) continue;
    AdamWEntry e;
    e.param = t.param.data;
    e.grad = t.grad.data;
    e.m = MakeMoment(t.m);
    e.v = MakeMoment(t.v);
    e.copy = t.copy.as<uint16_t>();
    e.weight_amax = t.amax.as<float>();
    e.count = t.param.numel();
    e.element_offset = t.element_offset;
    e.first_chunk = *chunks;
    e.id = t.id;
    e.param_bf16 = t.param.dtype == DType::kBF16;
    e.grad_bf16 = t.grad.dtype == DType::kBF16;
    e.decay = t.decay;
    *chunks += CeilDiv(CeilDiv(e.count, kExpansionGroup), kChunkGroups);
    table.push_back(e);
  }
  return table;
}

void CudaOps::AdamW(const AdamWArgs& args) {
  int64_t chunks = 0;
  const std::vector<AdamWEntry> table = MakeAdamWTable(args.tensors, &chunks);
  if (table.empty()) return;
  const AdamWEntry* entries = UploadAdamWTable(table);
  const Scalars s{args.lr, args.beta1, args.beta2, args.eps, args.weight_decay, args.seed};
  auto* state = reinterpret_cast<StepState*>(args.state.data);
  auto* coefficients = context_.Scratch<AdamWCoefficients>(1, "AdamW");
  const int count = static_cast<int>(table.size());
  PrepareKernel<<<1, 256, 0, context_.stream>>>(entries, count, s, state, coefficients);
  const DType m = args.tensors[0].m.values.dtype;
  const DType v = args.tensors[0].v.values.dtype;
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(chunks), kThreads, 0, context_.stream>>>(
        entries, count, args.seed, coefficients, state, Ratios(m), Ratios(v));
  };
  const auto fp8 = [&]<bool kExpanded>() {
    const auto second = [&]<typename FM>() {
      if (v == DType::kE5M2) {
        launch(AdamWKernel<Fp8Moment<FM, kExpanded>, Fp8Moment<E5M2, kExpanded>>);
      } else {
        launch(AdamWKernel<Fp8Moment<FM, kExpanded>, Fp8Moment<E4M3, kExpanded>>);
      }
    };
    m == DType::kE5M2 ? second.template operator()<E5M2>() : second.template operator()<E4M3>();
  };
  switch (args.storage) {
    case MomentStorage::kFp8Dre: fp8.template operator()<true>(); break;
    case MomentStorage::kFp8: fp8.template operator()<false>(); break;
    case MomentStorage::kBf16:
      launch(AdamWKernel<PlainMoment<uint16_t>, PlainMoment<uint16_t>>);
      break;
    case MomentStorage::kF32: launch(AdamWKernel<PlainMoment<float>, PlainMoment<float>>); break;
  }
  CudaCheck(cudaGetLastError(), "AdamW");
}

}  // namespace coat
