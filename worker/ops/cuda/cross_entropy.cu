#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {
namespace {

constexpr int kThreads = 512;
constexpr float kLog2E = 1.44269504f;

struct Rows {
  int64_t ld, vocab;
  int64_t whole_cols;  // of whole groups that may be read and written as vectors
  const int32_t* targets;
  const float* inverse_count;
  uint16_t* dlogits;  // or null
  int64_t ld_out;
  float* nll;
};

// e^(x - shift) for a finite shift.
__device__ inline float ExpShifted(float x, float shift) {
  return Exp2Flushed((x - shift) * kLog2E);
}

__device__ inline float At(const float* x, int64_t i) { return x[i]; }
__device__ inline float At(const uint16_t* x, int64_t i) { return FloatFromBf16(x[i]); }

// A running maximum, finite also when all is minus infinity, and the sum of exponentials relative
// to it.
struct Softmax {
  float largest = -kLargestFloat;
  float sum = 0;
  __device__ void Add(const Group16& g, int n) {
    float most = largest;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) most = i < n ? fmaxf(most, g.v[i]) : most;
    float total = sum * ExpShifted(largest, most);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) total += i < n ? ExpShifted(g.v[i], most) : 0.0f;
    largest = most;
    sum = total;
  }
};

__device__ inline float BlockMaxFloat(float x, float* scratch) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) x = fmaxf(x, scratch[w]);
  __syncthreads();
  return x;
}

// One block a row: maximum and sum in one pass, the gradient in a second one, which finds the row
// in L2.
template <typename Value>
__global__ void __launch_bounds__(kThreads) CrossEntropyKernel(const Value* logits, Rows r) {
  __shared__ float scratch[33];
  const int64_t row = blockIdx.x;
  const Value* x = logits + row * r.ld;
  uint16_t* out = r.dlogits == nullptr ? nullptr : r.dlogits + row * r.ld_out;
  const int target = r.targets[row];
  if (target < 0) {
    if (threadIdx.x == 0) r.nll[row] = 0;
    for (int64_t i = threadIdx.x; out != nullptr && i < r.ld_out; i += kThreads) out[i] = 0;
    return;
  }
  Softmax share;
  for (int64_t i = threadIdx.x * kGroup; i < r.whole_cols; i += kThreads * kGroup) {
    share.Add(LoadGroup<true>(x + i, kGroup), kGroup);
  }
  for (int64_t i = r.whole_cols + threadIdx.x * kGroup; i < r.vocab; i += kThreads * kGroup) {
    const int n = GroupCount<false>(r.vocab - i);
    share.Add(LoadGroup<false>(x + i, n), n);
  }
  const float largest = BlockMaxFloat(share.largest, scratch);
  const float total = BlockSum(share.sum * ExpShifted(share.largest, largest), scratch);
  const float at_target = At(x, target);
  __syncthreads();  // the gradient may overwrite the logits
  if (threadIdx.x == 0) r.nll[row] = logf(total) + (largest - at_target);
  if (out == nullptr) return;
  const float factor = *r.inverse_count;
  const float inverse_total = 1.0f / total;
  const float scale = inverse_total * factor;
  // The thread that has the target's group writes the target once more.
  const auto gradient = [&]<bool kWhole>(int64_t i, int n) {
    Group16 g = LoadGroup<kWhole>(x + i, n);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) g.v[k] = ExpShifted(g.v[k], largest) * scale;
    StoreGroup<kWhole>(g, out + i, n);
    if (target < i || target >= i + n) return;
    out[target] = Bf16Bits((ExpShifted(at_target, largest) * inverse_total - 1.0f) * factor);
  };
  for (int64_t i = threadIdx.x * kGroup; i < r.whole_cols; i += kThreads * kGroup) {
    gradient.template operator()<true>(i, kGroup);
  }
  for (int64_t i = r.whole_cols + threadIdx.x * kGroup; i < r.vocab; i += kThreads * kGroup) {
    gradient.template operator()<false>(i, GroupCount<false>(r.vocab - i));
  }
  for (int64_t i = r.vocab + threadIdx.x; i < r.ld_out; i += kThreads) out[i] = 0;
}

}  // namespace

void CudaOps::CrossEntropy(const CrossEntropyArgs& args) {
  Expect(args.targets, DType::kI32, "CrossEntropy.targets");
  Expect(args.nll, DType::kF32, "CrossEntropy.nll");
  const int64_t rows = args.logits.rows();
  if (rows == 0) return;
  const bool aligned = args.logits.ld % kGroup == 0 && args.dlogits.ld % kGroup == 0;
  const int64_t vocab = args.logits.cols();
  const Rows r{args.logits.ld,
               vocab,
               aligned ? vocab / kGroup * kGroup : 0,
               args.targets.as<int32_t>(),
               args.inverse_count.as<float>(),
               args.dlogits.as<uint16_t>(),
               args.dlogits.ld,
               args.nll.as<float>()};
  const auto launch = [&](auto* logits) {
    CrossEntropyKernel<<<static_cast<unsigned>(rows), kThreads, 0, context_.stream>>>(logits, r);
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
