#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/precision/fused.h"

namespace coat {
namespace {

// One block a token: pairs of q and k are rotated, v is only looked at for the maximum.
__global__ void RopeKernel(uint16_t* qkv, const float* cos, const float* sin, int64_t seq,
                           int heads_rotated, int head_size, int64_t width, bool backward,
                           float* amax) {
  __shared__ uint32_t scratch[33];
  uint16_t* row = qkv + blockIdx.x * width;
  const int half = head_size / 2;
  const int64_t position = blockIdx.x % seq;
  uint32_t largest = 0;
  for (int p = threadIdx.x; p < heads_rotated * half; p += blockDim.x) {
    const int head = p / half;
    const int i = p % half;
    uint16_t* a = row + static_cast<int64_t>(head) * head_size + i;
    const float c = cos[position * half + i];
    const float s = backward ? -sin[position * half + i] : sin[position * half + i];
    const RopePair r = Rotate({FloatFromBf16(a[0]), FloatFromBf16(a[half])}, c, s);
    a[0] = Bf16Bits(r.first);
    a[half] = Bf16Bits(r.second);
    largest = max(largest,
                  max(MagnitudeBits(FloatFromBf16(a[0])), MagnitudeBits(FloatFromBf16(a[half]))));
  }
  if (amax == nullptr) return;
  const int64_t rotated = static_cast<int64_t>(heads_rotated) * head_size;
  for (int64_t i = rotated + threadIdx.x; i < width; i += blockDim.x) {
    largest = max(largest, MagnitudeBits(FloatFromBf16(row[i])));
  }
  largest = BlockMax(largest, scratch);
  if (threadIdx.x == 0) amax[blockIdx.x] = __uint_as_float(largest);
}

}  // namespace

void CudaOps::Rope(const RopeArgs& args) {
  Expect(args.qkv, DType::kBF16, "Rope.qkv");
  const AttentionShape& s = args.shape;
  if (s.tokens() == 0) return;
  RopeKernel<<<static_cast<unsigned>(s.tokens()), 256, 0, context_.stream>>>(
      args.qkv.as<uint16_t>(), args.cos.as<float>(), args.sin.as<float>(), s.seq,
      static_cast<int>(s.heads + s.kv_heads), static_cast<int>(s.head_size), s.qkv_width(),
      args.backward, args.amax.as<float>());
  CudaCheck(cudaGetLastError(), "Rope");
}

}  // namespace coat
