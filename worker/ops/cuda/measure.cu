#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {
namespace {

constexpr int kBlocks = 512;
constexpr int kCounters = 6;

struct Counters {
  float values = 0, nonzero = 0, saturated = 0, flushed = 0, error = 0, squares = 0;
};

template <typename F>
__device__ inline void Count(const Group16& x, int n, float scale, Counters* c) {
  const float inverse = InverseScale(scale);
  for (int i = 0; i < n; ++i) {
    const uint8_t code = Fp8Encode<F>(x.v[i] * inverse);
    c->values += 1;
    c->nonzero += x.v[i] != 0 ? 1.0f : 0.0f;
    c->saturated += (code & 0x7fu) >= F::kMaxCode ? 1.0f : 0.0f;
    c->flushed += x.v[i] != 0 && (code & 0x7fu) == 0 ? 1.0f : 0.0f;
    if (!isfinite(x.v[i])) continue;
    const float difference = x.v[i] - Fp8Decode<F>(code) * scale;
    c->error += difference * difference;
    c->squares += x.v[i] * x.v[i];
  }
}

template <bool kWhole, typename Value, typename F>
__global__ void MeasureKernel(const Value* x, int64_t ld, int64_t rows, int64_t cols, int segments,
                              const float* scale, float* partial) {
  __shared__ float scratch[33];
  Counters c;
  const int64_t width = cols / segments;
  const int64_t groups = (width + kGroup - 1) / kGroup;
  const int64_t total = rows * segments * groups;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t row = i / (segments * groups);
    const int64_t segment = i / groups % segments;
    const int64_t col = i % groups * kGroup;
    const int n = GroupCount<kWhole>(width - col);
    const Group16 g = LoadGroup<kWhole>(x + row * ld + segment * width + col, n);
    const float s = scale != nullptr ? *scale : FloatFromBf16(GroupScale(GroupMagnitude(g)));
    Count<F>(g, n, s, &c);
  }
  const float sums[kCounters] = {c.values, c.nonzero, c.saturated, c.flushed, c.error, c.squares};
  for (int k = 0; k < kCounters; ++k) {
    const float sum = BlockSum(sums[k], scratch);
    if (threadIdx.x == 0) partial[k * kBlocks + blockIdx.x] = sum;
  }
}

// One block a counter, in fixed order.
__global__ void AddPartialsKernel(const float* partial, float* counters) {
  __shared__ float scratch[33];
  const float sum = BlockSum(partial[blockIdx.x * kBlocks + threadIdx.x], scratch);
  if (threadIdx.x == 0) counters[blockIdx.x] += sum;
}

}  // namespace

void CudaOps::Measure(const MeasureArgs& args) {
  Expect(args.counters, DType::kF32, "Measure.counters");
  float* partial = context_.Scratch<float>(kCounters * kBlocks, "Measure");
  const auto launch = [&]<typename Value>(const Value* x) {
    const auto run = [&](auto kernel) {
      kernel<<<kBlocks, 256, 0, context_.stream>>>(x, args.x.ld, args.x.rows(), args.x.cols(),
                                                   args.segments, args.scale.as<float>(), partial);
    };
    const bool whole = args.x.ld % kGroup == 0 && args.x.cols() / args.segments % kGroup == 0;
    if (args.format == DType::kE5M2) {
      run(whole ? MeasureKernel<true, Value, E5M2> : MeasureKernel<false, Value, E5M2>);
    } else {
      run(whole ? MeasureKernel<true, Value, E4M3> : MeasureKernel<false, Value, E4M3>);
    }
  };
  if (args.x.numel() == 0) return;
  if (args.x.dtype == DType::kF32) {
    launch(args.x.as<float>());
  } else {
    Expect(args.x, DType::kBF16, "Measure.x");
    launch(args.x.as<uint16_t>());
  }
  AddPartialsKernel<<<kCounters, kBlocks, 0, context_.stream>>>(partial, args.counters.as<float>());
  CudaCheck(cudaGetLastError(), "Measure");
}

}  // namespace coat
