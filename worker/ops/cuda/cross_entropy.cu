#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {
namespace {

__device__ inline float Read(const float* p, int64_t i) { return p[i]; }
__device__ inline float Read(const uint16_t* p, int64_t i) { return FloatFromBf16(p[i]); }

// One block a row: a running maximum and sum in one pass, the gradient in a second one, which
// finds the row in L2.
template <typename Value>
__global__ void __launch_bounds__(512)
    CrossEntropyKernel(const Value* logits, int64_t ld, int64_t vocab, const int32_t* targets,
                       const float* inverse_count, uint16_t* dlogits, int64_t ld_out, float* nll) {
  __shared__ float scratch[33];
  const int64_t row = blockIdx.x;
  const Value* x = logits + row * ld;
  const int target = targets[row];
  if (target < 0) {
    if (threadIdx.x == 0) nll[row] = 0;
    for (int64_t i = threadIdx.x; dlogits != nullptr && i < ld_out; i += blockDim.x) {
      dlogits[row * ld_out + i] = 0;
    }
    return;
  }
  float largest = -INFINITY;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) {
    const float v = Read(x, i);
    const float next = fmaxf(largest, v);
    sum = v != v ? v : sum * expf(largest - next) + expf(v - next);
    largest = next;
  }
  float block_max = largest;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    block_max = fmaxf(block_max, __shfl_xor_sync(0xffffffffu, block_max, offset));
  }
  __shared__ float maxima[16];
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = block_max;
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; ++w) block_max = fmaxf(block_max, maxima[w]);
  // A share without a finite value has sum 0, or NaN: both come through.
  const float total = BlockSum(sum * expf(largest - block_max), scratch);
  const float log_total = logf(total);
  const float at_target = Read(x, target);
  __syncthreads();  // the gradient may overwrite the logits
  if (threadIdx.x == 0) nll[row] = log_total + (block_max - at_target);
  if (dlogits == nullptr) return;
  const float factor = *inverse_count;
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) {
    const float p = expf(Read(x, i) - block_max) / total - (i == target ? 1.0f : 0.0f);
    dlogits[row * ld_out + i] = Bf16Bits(p * factor);
  }
  for (int64_t i = vocab + threadIdx.x; i < ld_out; i += blockDim.x) dlogits[row * ld_out + i] = 0;
}

}  // namespace

void CudaOps::CrossEntropy(const CrossEntropyArgs& args) {
  Expect(args.targets, DType::kI32, "CrossEntropy.targets");
  Expect(args.nll, DType::kF32, "CrossEntropy.nll");
  const int64_t rows = args.logits.rows();
  if (rows == 0) return;
  const auto launch = [&](auto* logits) {
    CrossEntropyKernel<<<static_cast<unsigned>(rows), 512, 0, context_.stream>>>(
        logits, args.logits.ld, args.logits.cols(), args.targets.as<int32_t>(),
        args.inverse_count.as<float>(), args.dlogits.as<uint16_t>(), args.dlogits.ld,
        args.nll.as<float>());
  };
  if (args.logits.dtype == DType::kF32) {
    Check(args.dlogits.data != args.logits.data, "CrossEntropy: BF16 gradients over FP32 logits");
    launch(args.logits.as<float>());
  } else {
    Expect(args.logits, DType::kBF16, "CrossEntropy.logits");
    launch(args.logits.as<uint16_t>());
  }
  CudaCheck(cudaGetLastError(), "CrossEntropy");
}

}  // namespace coat
