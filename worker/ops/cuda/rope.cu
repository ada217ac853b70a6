#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {
namespace {

constexpr int kThreads = 256;

struct Rotary {
  uint16_t* qkv;
  const float* cos;
  const float* sin;
  int64_t seq, width;
  int rotated_heads, head_size;
  bool backward;
};

__device__ inline void RotateOne(uint16_t* first, uint16_t* second, float c, float s) {
  const RopePair r = Rotate({FloatFromBf16(*first), FloatFromBf16(*second)}, c, s);
  *first = Bf16Bits(r.first);
  *second = Bf16Bits(r.second);
}

// kPairs neighbouring pairs: elements i .. i + kPairs - 1 of a head and their partners half a head
// further on. Returns the largest magnitude written.
template <int kPairs>
__device__ inline uint32_t RotatePairs(const Rotary& r, uint16_t* head, int64_t position, int i) {
  const int half = r.head_size / 2;
  alignas(16) uint16_t first[kPairs];
  alignas(16) uint16_t second[kPairs];
  if constexpr (kPairs == 8) {
    *reinterpret_cast<uint4*>(first) = *reinterpret_cast<const uint4*>(head + i);
    *reinterpret_cast<uint4*>(second) = *reinterpret_cast<const uint4*>(head + half + i);
  } else {
    first[0] = head[i];
    second[0] = head[half + i];
  }
  uint32_t largest = 0;
#pragma unroll
  for (int k = 0; k < kPairs; ++k) {
    const int64_t angle = position * half + i + k;
    RotateOne(&first[k], &second[k], r.cos[angle], r.backward ? -r.sin[angle] : r.sin[angle]);
    largest = max(largest, max(first[k] & 0x7fffu, second[k] & 0x7fffu));
  }
  if constexpr (kPairs == 8) {
    *reinterpret_cast<uint4*>(head + i) = *reinterpret_cast<const uint4*>(first);
    *reinterpret_cast<uint4*>(head + half + i) = *reinterpret_cast<const uint4*>(second);
  } else {
    head[i] = first[0];
    head[half + i] = second[0];
  }
  return largest << 16;
}

// One block a token: pairs of q and k are rotated, v is only looked at for the maximum.
template <int kPairs>
__global__ void __launch_bounds__(kThreads) RopeKernel(Rotary r, float* amax) {
  __shared__ uint32_t scratch[33];
  uint16_t* row = r.qkv + blockIdx.x * r.width;
  const int per_head = r.head_size / 2 / kPairs;
  const int64_t position = blockIdx.x % r.seq;
  uint32_t largest = 0;
  for (int p = threadIdx.x; p < r.rotated_heads * per_head; p += kThreads) {
    uint16_t* head = row + static_cast<int64_t>(p / per_head) * r.head_size;
    largest = max(largest, RotatePairs<kPairs>(r, head, position, p % per_head * kPairs));
  }
  if (amax == nullptr) return;
  const int64_t rotated = static_cast<int64_t>(r.rotated_heads) * r.head_size;
  for (int64_t i = rotated + threadIdx.x * kPairs; i < r.width; i += kThreads * kPairs) {
    alignas(16) uint16_t v[kPairs];
    if constexpr (kPairs == 8) {
      *reinterpret_cast<uint4*>(v) = *reinterpret_cast<const uint4*>(row + i);
    } else {
      v[0] = row[i];
    }
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      largest = max(largest, static_cast<uint32_t>(v[k] & 0x7fffu) << 16);
    }
  }
  largest = BlockMax(largest, scratch);
  if (threadIdx.x == 0) amax[blockIdx.x] = __uint_as_float(largest);
}

}  // namespace

void CudaOps::Rope(const RopeArgs& args) {
  Expect(args.qkv, DType::kBF16, "Rope.qkv");
  const AttentionShape& s = args.shape;
  if (s.tokens() == 0) return;
  const Rotary rotary{args.qkv.as<uint16_t>(),
                      args.cos.as<float>(),
                      args.sin.as<float>(),
                      s.seq,
                      s.qkv_width(),
                      static_cast<int>(s.heads + s.kv_heads),
                      static_cast<int>(s.head_size),
                      args.backward};
  const auto blocks = static_cast<unsigned>(s.tokens());
  if (s.head_size % 16 == 0) {
    RopeKernel<8><<<blocks, kThreads, 0, context_.stream>>>(rotary, args.amax.as<float>());
  } else {
    RopeKernel<1><<<blocks, kThreads, 0, context_.stream>>>(rotary, args.amax.as<float>());
  }
  CudaCheck(cudaGetLastError(), "Rope");
}

}  // namespace coat
