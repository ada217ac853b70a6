// Plain attention kernels for shapes the library has no plan for, and as its cross-check: one warp
// a query (forward, dq) or a key (dk, dv), FP32 throughout, sums in fixed order.
#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxPerLane = 8;  // head size up to 256

struct Heads {
  int64_t seq, heads, kv_heads, head_size, width, tokens;
  float scale;
};

Heads MakeHeads(const AttentionShape& s) {
  Check(s.head_size <= 32 * kMaxPerLane, "attention: head size above 256");
  return {s.seq,
          s.heads,
          s.kv_heads,
          s.head_size,
          s.qkv_width(),
          s.tokens(),
          1.0f / sqrtf(static_cast<float>(s.head_size))};
}

struct Lane {  // a head vector spread over the warp
  float v[kMaxPerLane];
};

__device__ inline Lane LoadLane(const uint16_t* p, int64_t head_size) {
  Lane x;
#pragma unroll
  for (int k = 0; k < kMaxPerLane; ++k) {
    const int64_t i = threadIdx.x % 32 + 32 * k;
    x.v[k] = i < head_size ? FloatFromBf16(p[i]) : 0.0f;
  }
  return x;
}
__device__ inline void StoreLane(const Lane& x, uint16_t* p, int64_t head_size) {
#pragma unroll
  for (int k = 0; k < kMaxPerLane; ++k) {
    const int64_t i = threadIdx.x % 32 + 32 * k;
    if (i < head_size) p[i] = Bf16Bits(x.v[k]);
  }
}
__device__ inline float Dot(const Lane& a, const Lane& b) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kMaxPerLane; ++k) sum += a.v[k] * b.v[k];
  return WarpSum(sum);
}
__device__ inline void AddScaled(Lane* a, float f, const Lane& b) {
#pragma unroll
  for (int k = 0; k < kMaxPerLane; ++k) a->v[k] += f * b.v[k];
}

// (token, query head) -> where its vectors lie.
struct Place {
  int64_t token, head, kv_head, batch, position;
};
__device__ inline Place QueryPlace(const Heads& h, int64_t index) {
  Place p;
  p.token = index / h.heads;
  p.head = index % h.heads;
  p.kv_head = p.head / (h.heads / h.kv_heads);
  p.batch = p.token / h.seq;
  p.position = p.token % h.seq;
  return p;
}
__device__ inline const uint16_t* KeyAt(const Heads& h, const uint16_t* qkv, int64_t token,
                                        int64_t kv_head) {
  return qkv + token * h.width + (h.heads + kv_head) * h.head_size;
}
__device__ inline const uint16_t* ValueAt(const Heads& h, const uint16_t* qkv, int64_t token,
                                          int64_t kv_head) {
  return qkv + token * h.width + (h.heads + h.kv_heads + kv_head) * h.head_size;
}

__global__ void ForwardKernel(Heads h, const uint16_t* qkv, uint16_t* o, float* lse) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (index >= h.tokens * h.heads) return;
  const Place p = QueryPlace(h, index);
  const Lane q = LoadLane(qkv + p.token * h.width + p.head * h.head_size, h.head_size);
  Lane sum{};
  float largest = -INFINITY, total = 0;
  for (int64_t j = 0; j <= p.position; ++j) {
    const int64_t token = p.batch * h.seq + j;
    const float s = Dot(q, LoadLane(KeyAt(h, qkv, token, p.kv_head), h.head_size)) * h.scale;
    const float next = fmaxf(largest, s);
    const float keep = expf(largest - next);
    const float weight = expf(s - next);
#pragma unroll
    for (int k = 0; k < kMaxPerLane; ++k) sum.v[k] *= keep;
    AddScaled(&sum, weight, LoadLane(ValueAt(h, qkv, token, p.kv_head), h.head_size));
    total = total * keep + weight;
    largest = next;
  }
#pragma unroll
  for (int k = 0; k < kMaxPerLane; ++k) sum.v[k] /= total;
  StoreLane(sum, o + (p.token * h.heads + p.head) * h.head_size, h.head_size);
  if (threadIdx.x % 32 == 0) {
    lse[(p.batch * h.heads + p.head) * h.seq + p.position] = largest + logf(total);
  }
}

// dq, and delta = o . do of each query for the other kernel.
__global__ void QueryGradientKernel(Heads h, const uint16_t* qkv, const uint16_t* o,
                                    const float* lse, const uint16_t* dout, uint16_t* dqkv,
                                    float* delta) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (index >= h.tokens * h.heads) return;
  const Place p = QueryPlace(h, index);
  const int64_t at = (p.token * h.heads + p.head) * h.head_size;
  const Lane q = LoadLane(qkv + p.token * h.width + p.head * h.head_size, h.head_size);
  const Lane grad = LoadLane(dout + at, h.head_size);
  const float d = Dot(grad, LoadLane(o + at, h.head_size));
  const float log_sum = lse[(p.batch * h.heads + p.head) * h.seq + p.position];
  Lane dq{};
  for (int64_t j = 0; j <= p.position; ++j) {
    const int64_t token = p.batch * h.seq + j;
    const Lane k = LoadLane(KeyAt(h, qkv, token, p.kv_head), h.head_size);
    const float weight = expf(Dot(q, k) * h.scale - log_sum);
    const Lane v = LoadLane(ValueAt(h, qkv, token, p.kv_head), h.head_size);
    AddScaled(&dq, weight * (Dot(grad, v) - d) * h.scale, k);
  }
  StoreLane(dq, dqkv + p.token * h.width + p.head * h.head_size, h.head_size);
  if (threadIdx.x % 32 == 0) delta[index] = d;
}

__global__ void KeyGradientKernel(Heads h, const uint16_t* qkv, const float* lse,
                                  const uint16_t* dout, const float* delta, uint16_t* dqkv) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (index >= h.tokens * h.kv_heads) return;
  const int64_t token = index / h.kv_heads;
  const int64_t kv_head = index % h.kv_heads;
  const int64_t batch = token / h.seq;
  const int64_t group = h.heads / h.kv_heads;
  const Lane k = LoadLane(KeyAt(h, qkv, token, kv_head), h.head_size);
  const Lane v = LoadLane(ValueAt(h, qkv, token, kv_head), h.head_size);
  Lane dk{}, dv{};
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t i = token; i < (batch + 1) * h.seq; ++i) {
      const Lane q = LoadLane(qkv + i * h.width + head * h.head_size, h.head_size);
      const Lane grad = LoadLane(dout + (i * h.heads + head) * h.head_size, h.head_size);
      const float log_sum = lse[(batch * h.heads + head) * h.seq + i % h.seq];
      const float weight = expf(Dot(q, k) * h.scale - log_sum);
      AddScaled(&dv, weight, grad);
      AddScaled(&dk, weight * (Dot(grad, v) - delta[i * h.heads + head]) * h.scale, q);
    }
  }
  uint16_t* row = dqkv + token * h.width;
  StoreLane(dk, row + (h.heads + kv_head) * h.head_size, h.head_size);
  StoreLane(dv, row + (h.heads + h.kv_heads + kv_head) * h.head_size, h.head_size);
}

unsigned Blocks(int64_t warps) { return static_cast<unsigned>((warps + kWarps - 1) / kWarps); }

}  // namespace

void CudaOps::SimpleAttention(const AttentionArgs& args) {
  const Heads h = MakeHeads(args.shape);
  if (h.tokens == 0) return;
  ForwardKernel<<<Blocks(h.tokens * h.heads), 32 * kWarps, 0, context_.stream>>>(
      h, args.qkv.as<uint16_t>(), args.o.as<uint16_t>(), args.lse.as<float>());
  CudaCheck(cudaGetLastError(), "SimpleAttention");
}

void CudaOps::SimpleAttentionBackward(const AttentionBackwardArgs& args) {
  const Heads h = MakeHeads(args.shape);
  if (h.tokens == 0) return;
  float* delta = context_.Scratch<float>(h.tokens * h.heads, "SimpleAttentionBackward");
  QueryGradientKernel<<<Blocks(h.tokens * h.heads), 32 * kWarps, 0, context_.stream>>>(
      h, args.qkv.as<uint16_t>(), args.o.as<uint16_t>(), args.lse.as<float>(),
      args.dout.as<uint16_t>(), args.dqkv.as<uint16_t>(), delta);
  KeyGradientKernel<<<Blocks(h.tokens * h.kv_heads), 32 * kWarps, 0, context_.stream>>>(
      h, args.qkv.as<uint16_t>(), args.lse.as<float>(), args.dout.as<uint16_t>(), delta,
      args.dqkv.as<uint16_t>());
  CudaCheck(cudaGetLastError(), "SimpleAttentionBackward");
}

}  // namespace coat
