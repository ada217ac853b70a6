// AdamW over all tensors in one launch: half a warp a group of 128, eight elements a lane.
#include <vector>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cpu/philox.h"
#include "worker/ops/cuda/adamw_moments.cuh"
#include "worker/ops/cuda/adamw_table.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/precision/adamw_update.h"

namespace coat {
namespace {

constexpr int kThreads = 256;
constexpr int kChunkGroups = kAdamWChunkGroups;  // 16 pairs of groups a warp

struct Scalars {
  float lr, beta1, beta2, eps, weight_decay;
  uint64_t seed;
};

// AdamWElement (precision/adamw_update.h) with fused products and an approximate root and quotient:
// the step is off by less than 2^-20 of its value, the moments by one rounding.
__device__ inline float AdamWStep(const AdamWCoefficients& c, float weight_decay, float p, float g,
                                  float* m, float* v) {
  const float scaled = g * c.grad_factor;
  *m = __fmaf_rn(c.beta1, *m, c.one_minus_beta1 * scaled);
  *v = __fmaf_rn(c.beta2, *v, c.one_minus_beta2 * (scaled * scaled));
  float root;  // a subnormal v has no weight beside eps
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(*v * c.correction2));
  const float ratio = (*m * c.correction1) * ReciprocalFlushed(root + c.eps);
  return c.lr * __fmaf_rn(weight_decay, p, ratio);
}

// Four new weights; p becomes what is stored.
__device__ inline void StoreParam(const AdamWEntry& e, int64_t at, int n, float* p, uint64_t seed,
                                  int32_t t) {
  if (!e.param_bf16) {
    StoreFour(p, e.param, /*bf16=*/false, at, n);
    return;
  }
  const PhiloxBlock words = RoundingWords(seed, (e.element_offset + at) / 4, e.id, t);
  uint16_t bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits[i] = StochasticBf16(p[i], words.word[i]);
    p[i] = FloatFromBf16(bits[i]);
  }
  StoreBf16(bits, static_cast<uint16_t*>(e.param) + at, n);
}

__global__ void PrepareKernel(const AdamWEntry* entries, int count, Scalars s, StepState* state,
                              AdamWCoefficients* coefficients) {
  if (state->apply == 0) return;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    if (entries[i].weight_amax != nullptr) *entries[i].weight_amax = 0.0f;
  }
  if (threadIdx.x != 0) return;
  state->t += 1;
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

struct Sums {
  float update_sq = 0, weight_sq = 0;
  uint32_t largest = 0;  // magnitude bits of the new weights
};

// What all lanes of a block share.
struct Shared {
  AdamWEntry e;  // not in registers: read now and then by all threads alike
  AdamWCoefficients c;
  float decay;
  int32_t t;
  float table_m[128], table_v[128];
  float scratch[33];
};

template <typename M, typename V, bool kWhole>
__device__ inline void UpdateLane(const Shared& s, const LanePlace<kWhole>& place, uint64_t seed,
                                  Sums* sums) {
  float p[kLaneElements], grad[kLaneElements], m[kLaneElements], v[kLaneElements];
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int64_t at = place.at + q * kQuadDistance;
    LoadFour(s.e.param, s.e.param_bf16, at, place.quad(q), p + 4 * q);
    LoadFour(s.e.grad, s.e.grad_bf16, at, place.quad(q), grad + 4 * q);
  }
  M::Load(s.e.m, place, s.table_m, m);
  V::Load(s.e.v, place, s.table_v, v);
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const float step = AdamWStep(s.c, s.decay, p[i], grad[i], &m[i], &v[i]);
    p[i] = p[i] - step;
    if (place.has(i)) {
      sums->update_sq = __fmaf_rn(step, step, sums->update_sq);
    } else {
      p[i] = m[i] = v[i] = 0.0f;
    }
  }
  M::Store(s.e.m, place, m);
  V::Store(s.e.v, place, v);
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int64_t at = place.at + q * kQuadDistance;
    StoreParam(s.e, at, place.quad(q), p + 4 * q, seed, s.t);
    if (s.e.copy != nullptr) StoreFour(p + 4 * q, s.e.copy, /*bf16=*/true, at, place.quad(q));
  }
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    sums->weight_sq = __fmaf_rn(p[i], p[i], sums->weight_sq);
    sums->largest = max(sums->largest, MagnitudeBits(p[i]));
  }
}

// Groups that reach beyond the tensor; apart, so that they cost the others no registers.
template <typename M, typename V>
__device__ __noinline__ Sums UpdateTail(const Shared& s, int64_t group, int64_t at, uint64_t seed) {
  LanePlace<false> place;
  place.group = group;
  place.at = at;
  place.exists = group < CeilDiv(s.e.count, kExpansionGroup);
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int64_t rest = s.e.count - at - q * kQuadDistance;
    place.n[q] = static_cast<int>(max(int64_t{0}, min(int64_t{4}, rest)));
  }
  Sums sums;
  UpdateLane<M, V>(s, place, seed, &sums);
  return sums;
}

template <typename Moment>
__device__ void FillTable(const ExpansionTable& ratios, float* table) {
  if constexpr (Moment::kHasTable) {
    for (int i = threadIdx.x; i < 128; i += blockDim.x) {
      table[i] = i == 0 ? -INFINITY : ratios.log2_ratio[i];
    }
  }
}

template <typename M, typename V>
__global__ void __launch_bounds__(kThreads, 4)
    AdamWKernel(const AdamWEntry* entries, int count, uint64_t seed,
                const AdamWCoefficients* coefficients, const StepState* state, float* partial,
                __grid_constant__ const ExpansionTable ratios_m,
                __grid_constant__ const ExpansionTable ratios_v) {
  __shared__ Shared s;
  if (state->apply == 0) return;
  FillTable<M>(ratios_m, s.table_m);
  FillTable<V>(ratios_v, s.table_v);
  if (threadIdx.x == 0) {
    s.e = entries[FindEntry(entries, count)];
    s.c = *coefficients;
    s.decay = s.e.decay ? s.c.weight_decay : 0.0f;
    s.t = state->t;
  }
  __syncthreads();
  const int lane = threadIdx.x % 16;
  const int64_t first_group = (blockIdx.x - s.e.first_chunk) * static_cast<int64_t>(kChunkGroups);
  const int64_t whole_groups = s.e.count / kExpansionGroup;
  const int64_t all_groups = CeilDiv(s.e.count, kExpansionGroup);
  Sums sums;
  for (int pair = threadIdx.x / 32; pair < kChunkGroups / 2; pair += kThreads / 32) {
    const int64_t first = first_group + 2 * pair;
    if (first >= all_groups) break;
    const int64_t group = first + (threadIdx.x / 16) % 2;
    const int64_t at = group * kExpansionGroup + lane * 4;
    if (first + 2 <= whole_groups) {
      LanePlace<true> place;
      place.group = group;
      place.at = at;
      UpdateLane<M, V>(s, place, seed, &sums);
      continue;
    }
    const Sums tail = UpdateTail<M, V>(s, group, at, seed);
    sums.update_sq += tail.update_sq;
    sums.weight_sq += tail.weight_sq;
    sums.largest = max(sums.largest, tail.largest);
  }
  const float update_sq = BlockSum(sums.update_sq, s.scratch);
  const float weight_sq = BlockSum(sums.weight_sq, s.scratch);
  const uint32_t largest = BlockMax(sums.largest, reinterpret_cast<uint32_t*>(s.scratch));
  if (threadIdx.x != 0) return;
  partial[blockIdx.x] = update_sq;
  partial[gridDim.x + blockIdx.x] = weight_sq;
  if (s.e.weight_amax != nullptr) {
    atomicMax(reinterpret_cast<unsigned*>(s.e.weight_amax), largest);
  }
}

// Two blocks: the sum of squared updates and that of squared weights.
__global__ void FinishKernel(const float* partial, int64_t chunks, StepState* state) {
  if (state->apply == 0) return;
  const double sum = BlockSumInOrder(partial + blockIdx.x * chunks, chunks);
  if (threadIdx.x != 0) return;
  (blockIdx.x == 0 ? state->update_sq : state->weight_sq) = static_cast<float>(sum);
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
  static_assert(sizeof(AdamWCoefficients) <= kAdamWCoefficientBytes);
  auto* scratch = context_.Scratch<uint8_t>(AdamWScratchBytes(chunks), "AdamW");
  auto* coefficients = reinterpret_cast<AdamWCoefficients*>(scratch);
  auto* partial = reinterpret_cast<float*>(scratch + kAdamWCoefficientBytes);
  const int count = static_cast<int>(table.size());
  PrepareKernel<<<1, 256, 0, context_.stream>>>(entries, count, s, state, coefficients);
  const DType m = args.tensors[0].m.values.dtype;
  const DType v = args.tensors[0].v.values.dtype;
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(chunks), kThreads, 0, context_.stream>>>(
        entries, count, args.seed, coefficients, state, partial, Ratios(m), Ratios(v));
  };
  const auto by_formats = [&]<template <typename, bool> typename Moment>() {
    const auto second = [&]<typename FM>() {
      if (v == DType::kE5M2) {
        launch(AdamWKernel<Moment<FM, true>, Moment<E5M2, false>>);
      } else {
        launch(AdamWKernel<Moment<FM, true>, Moment<E4M3, false>>);
      }
    };
    m == DType::kE5M2 ? second.template operator()<E5M2>() : second.template operator()<E4M3>();
  };
  switch (args.storage) {
    case MomentStorage::kFp8Dre: by_formats.template operator()<ExpandedMoment>(); break;
    case MomentStorage::kFp8: by_formats.template operator()<ScaledMoment>(); break;
    case MomentStorage::kBf16: launch(AdamWKernel<PlainMoment<true>, PlainMoment<true>>); break;
    case MomentStorage::kF32: launch(AdamWKernel<PlainMoment<false>, PlainMoment<false>>); break;
  }
  FinishKernel<<<2, kSumInOrderThreads, 0, context_.stream>>>(partial, chunks, state);
  CudaCheck(cudaGetLastError(), "AdamW");
}

}  // namespace coat
