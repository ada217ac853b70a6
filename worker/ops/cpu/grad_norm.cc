#include "worker/ops/cpu/grad_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "configs/base/error.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

constexpr int64_t kBlock = 512;        // elements summed in lanes, then pairwise
constexpr int64_t kLanes = 32;         // FP32 sums side by side
constexpr int64_t kMaxChunks = 256;    // partial sums, whatever the number of threads
constexpr int64_t kBlocksAtLeast = 8;  // of a chunk

int64_t Blocks(const Tensor& x) { return (x.numel() + kBlock - 1) / kBlock; }

template <typename T>
float AsFloat(T x) {
  if constexpr (sizeof(T) == 2)
    return FloatFromBf16(x);
  else
    return x;
}

template <typename T>
float BlockSumOfSquares(const T* x, int64_t count) {
  alignas(64) std::array<float, kLanes> lanes{};
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = AsFloat(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (int64_t i = whole; i < count; ++i) {
    const float value = AsFloat(x[i]);
    lanes[i - whole] += value * value;
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// Blocks [first, last) of one tensor, pairwise.
float SumOfSquares(const Tensor& x, int64_t first, int64_t last) {
  if (last - first > 1) {
    const int64_t middle = first + (last - first) / 2;
    return SumOfSquares(x, first, middle) + SumOfSquares(x, middle, last);
  }
  const int64_t element = first * kBlock;
  const int64_t count = std::min(kBlock, x.numel() - element);
  return x.dtype == DType::kF32 ? BlockSumOfSquares(x.as<const float>() + element, count)
                                : BlockSumOfSquares(x.as<const uint16_t>() + element, count);
}

// Blocks [begin, end) of all tensors, counted through.
float RunChunk(std::span<const Tensor> grads, int64_t begin, int64_t end) {
  float sum = 0;
  int64_t before = 0;  // blocks of earlier tensors
  for (const Tensor& grad : grads) {
    const int64_t blocks = Blocks(grad);
    const int64_t first = std::max(begin - before, int64_t{0});
    const int64_t last = std::min(end - before, blocks);
    before += blocks;
    if (first < last) sum += SumOfSquares(grad, first, last);
  }
  return sum;
}

float Pairwise(const float* x, int64_t count) {
  if (count == 1) return x[0];
  const int64_t half = count / 2;
  return Pairwise(x, half) + Pairwise(x + half, count - half);
}

}  // namespace

void CpuGradNorm(const GradNormArgs& args, ThreadPool& pool) {
  Check(args.state.bytes() == static_cast<int64_t>(sizeof(StepState)),
        "GradNorm: state must be a StepState");
  int64_t blocks = 0;
  for (const Tensor& grad : args.grads) {
    Check((grad.dtype == DType::kF32 || grad.dtype == DType::kBF16) && grad.contiguous(),
          "GradNorm: grads must be contiguous F32 or BF16 tensors");
    blocks += Blocks(grad);
  }

  std::array<float, kMaxChunks> partials{};
  const int64_t grain = std::max(kBlocksAtLeast, (blocks + kMaxChunks - 1) / kMaxChunks);
  pool.ParallelFor(blocks, grain, [&](int64_t begin, int64_t end) {
    partials[begin / grain] = RunChunk(args.grads, begin, end);
  });

  StepState& state = *args.state.as<StepState>();
  const float norm = std::sqrt(Pairwise(partials.data(), kMaxChunks));
  const bool finite = std::isfinite(norm) && *args.nonfinite.as<const int32_t>() == 0;
  const bool any_target = *args.inverse_count.as<const float>() > 0;
  state.grad_norm = norm;
  state.apply = finite && any_target ? 1 : 0;
  state.clip_factor = 1.0f;
  if (finite && args.clip_norm > 0) {
    state.clip_factor = std::min(1.0f, args.clip_norm / (norm + 1e-6f));
  }
}

}  // namespace coat
