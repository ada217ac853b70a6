#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/norm.cuh"
#include "worker/ops/cuda/views.h"

namespace coat {
namespace {

struct NormBackwardPointers {
  const uint16_t* dy;
  DeviceActivation x;
  const float* rstd;
  const float* gamma;
  const uint16_t* dresidual;
  uint16_t* out;
  float* amax;     // or null
  float* partial;  // (blocks, cols): gain gradients of each block's rows
};

// Blocks take rows in turn; a thread owns its columns of the gain gradient for all of them.
template <int kPerThread>
__global__ void NormBackwardKernel(NormBackwardPointers p, int64_t rows, int64_t cols, int groups,
                                   bool aligned) {
  __shared__ float scratch[33];
  Group16 dgamma[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) dgamma[k].v[i] = 0;
  }
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float rstd = p.rstd[row];
    Group16 xhat[kPerThread];
    Group16 weighted[kPerThread];  // dy gamma
    float dot = 0;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int g = threadIdx.x + k * blockDim.x;
      if (g >= groups) break;
      const int64_t col = static_cast<int64_t>(g) * kGroup;
      const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), cols - col));
      xhat[k] = p.x.Load(row, col, g, n);
      weighted[k] = LoadGroup(p.dy + row * cols + col, n, aligned);
      const Group16 gamma = LoadGroup(p.gamma + col, n, aligned);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        xhat[k].v[i] *= rstd;
        dgamma[k].v[i] += weighted[k].v[i] * xhat[k].v[i];
        weighted[k].v[i] *= gamma.v[i];
        dot += weighted[k].v[i] * xhat[k].v[i];
      }
    }
    const float mean = BlockSum(dot, scratch) / static_cast<float>(cols);
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int g = threadIdx.x + k * blockDim.x;
      if (g >= groups) break;
      const int64_t col = static_cast<int64_t>(g) * kGroup;
      const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), cols - col));
      Group16 dx;
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        dx.v[i] = rstd * (weighted[k].v[i] - xhat[k].v[i] * mean);
      }
      if (p.dresidual != nullptr) {
        const Group16 r = LoadGroup(p.dresidual + row * cols + col, n, aligned);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) dx.v[i] += r.v[i];
      }
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        dx.v[i] = Bf16Rounded(dx.v[i]);
        if (i < n) largest = max(largest, MagnitudeBits(dx.v[i]));
      }
      StoreGroup(dx, p.out + row * cols + col, n, aligned);
    }
    if (p.amax == nullptr) continue;
    largest = BlockMax(largest, reinterpret_cast<uint32_t*>(scratch));
    if (threadIdx.x == 0) p.amax[row] = __uint_as_float(largest);
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int g = threadIdx.x + k * blockDim.x;
    if (g >= groups) break;
    const int64_t col = static_cast<int64_t>(g) * kGroup;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (col + i < cols) p.partial[blockIdx.x * cols + col + i] = dgamma[k].v[i];
    }
  }
}

// dgamma += the blocks' partials, in the order of the blocks: 32 strided sums, then a tree.
__global__ void GainGradientKernel(const float* partial, int blocks, int64_t cols, float* dgamma) {
  __shared__ float sums[32][33];
  const int64_t col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  if (col < cols) {
    for (int b = threadIdx.y; b < blocks; b += 32) sum += partial[b * cols + col];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = WarpSum(sums[threadIdx.x][threadIdx.y]);
  const int64_t out = blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x == 0 && out < cols) dgamma[out] += total;
}

}  // namespace

void CudaOps::NormBackward(const NormBackwardArgs& args) {
  Expect(args.dy, DType::kBF16, "NormBackward.dy");
  Expect(args.dgamma, DType::kF32, "NormBackward.dgamma");
  const int64_t rows = args.dy.rows();
  const int64_t cols = args.dy.cols();
  if (rows == 0) return;
  const RowShape shape = MakeRowShape(cols);
  const int64_t blocks = std::min<int64_t>(rows, NormBackwardBlocks(cols));
  const NormBackwardPointers p{
      args.dy.as<uint16_t>(),        MakeActivation(args.x),
      args.rstd.as<float>(),         args.gamma.as<float>(),
      args.dresidual.as<uint16_t>(), args.dresidual_out.as<uint16_t>(),
      args.amax.as<float>(),         context_.Scratch<float>(blocks * cols, "NormBackward")};
  Check(shape.threads * shape.per_thread >= shape.groups, "NormBackward: rows longer than 65536");
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(blocks), shape.threads, 0, context_.stream>>>(
        p, rows, cols, shape.groups, shape.aligned);
  };
  if (shape.per_thread == 1) launch(NormBackwardKernel<1>);
  if (shape.per_thread == 2) launch(NormBackwardKernel<2>);
  if (shape.per_thread == 4) launch(NormBackwardKernel<4>);
  GainGradientKernel<<<static_cast<unsigned>((cols + 31) / 32), dim3(32, 32), 0, context_.stream>>>(
      p.partial, static_cast<int>(blocks), cols, args.dgamma.as<float>());
  CudaCheck(cudaGetLastError(), "NormBackward");
}

}  // namespace coat
