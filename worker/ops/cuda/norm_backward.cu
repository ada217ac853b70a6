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

// What the warps of a block tell each other of a row. Rows take turns with two of these, so that
// one barrier a row is enough: what is written for a row is read before the barrier of the next
// one.
struct RowSums {
  float dot[32];
  uint32_t largest[32];
};

__device__ inline float SumOverWarps(const float* x) {
  float sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) sum += x[w];
  return sum;
}

__device__ inline void StoreLargest(const RowSums& sums, float* amax) {
  if (threadIdx.x != 0) return;
  uint32_t largest = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w)
    largest = max(largest, sums.largest[w]);
  *amax = __uint_as_float(largest);
}

// Blocks take rows in turn; a thread owns its columns of the gain gradient for all of them.
template <int kPerThread, bool kWhole>
__global__ void __maxnreg__(MaxRowRegisters(kPerThread))
    NormBackwardKernel(NormBackwardPointers p, int64_t rows, int64_t cols, int groups) {
  __shared__ RowSums shared[2];
  const int warp = threadIdx.x / 32;
  Group16 dgamma[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) dgamma[k].v[i] = 0;
  }
  int turn = 0;
  int64_t previous = -1;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float rstd = p.rstd[row];
    Group16 xhat[kPerThread];
    Group16 weighted[kPerThread];  // dy gamma
    Packed16 residual[kPerThread];
    float dot = 0;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int g = threadIdx.x + k * blockDim.x;
      if (g >= groups) break;
      const int64_t col = static_cast<int64_t>(g) * kGroup;
      const int n = GroupCount<kWhole>(cols - col);
      xhat[k] = p.x.Load<kWhole>(row, col, g, n);
      weighted[k] = LoadGroup<kWhole>(p.dy + row * cols + col, n);
      if (p.dresidual != nullptr) {
        residual[k] = LoadPacked<kWhole>(p.dresidual + row * cols + col, n);
      }
      const Group16 gamma = LoadGroup<kWhole>(p.gamma + col, n);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        xhat[k].v[i] *= rstd;
        dgamma[k].v[i] += weighted[k].v[i] * xhat[k].v[i];
        weighted[k].v[i] *= gamma.v[i];
        dot += weighted[k].v[i] * xhat[k].v[i];
      }
    }
    dot = WarpSum(dot);
    if (threadIdx.x % 32 == 0) shared[turn].dot[warp] = dot;
    __syncthreads();
    const float mean = SumOverWarps(shared[turn].dot) / static_cast<float>(cols);
    if (previous >= 0 && p.amax != nullptr) StoreLargest(shared[1 - turn], p.amax + previous);
    float largest = 0;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int g = threadIdx.x + k * blockDim.x;
      if (g >= groups) break;
      const int64_t col = static_cast<int64_t>(g) * kGroup;
      Group16 dx;
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        dx.v[i] = rstd * (weighted[k].v[i] - xhat[k].v[i] * mean);
      }
      if (p.dresidual != nullptr) {
        const Group16 r = Unpack(residual[k]);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) dx.v[i] += r.v[i];
      }
      const Packed16 packed = Pack(dx);
      StorePacked<kWhole>(packed, p.out + row * cols + col, GroupCount<kWhole>(cols - col));
      largest = MaxMagnitude(largest, GroupMagnitude(packed));
    }
    const uint32_t bits = __reduce_max_sync(0xffffffffu, __float_as_uint(largest));
    if (threadIdx.x % 32 == 0) shared[turn].largest[warp] = bits;
    previous = row;
    turn = 1 - turn;
  }
  __syncthreads();
  if (previous >= 0 && p.amax != nullptr) StoreLargest(shared[1 - turn], p.amax + previous);
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
  Check(shape.threads * shape.per_thread >= shape.groups, "NormBackward: rows longer than 65536");
  NormBackwardPointers p{args.dy.as<uint16_t>(),        MakeActivation(args.x),
                         args.rstd.as<float>(),         args.gamma.as<float>(),
                         args.dresidual.as<uint16_t>(), args.dresidual_out.as<uint16_t>(),
                         args.amax.as<float>(),         nullptr};
  int64_t blocks = std::min<int64_t>(rows, NormBackwardBlocks(cols));
  ForRowShape(shape, [&]<int kPerThread, bool kWhole>() {
    const auto kernel = NormBackwardKernel<kPerThread, kWhole>;
    int resident = 0;  // blocks that wait for others would work alone at the end
    CudaCheck(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, shape.threads, 0),
              "NormBackward");
    blocks = std::min<int64_t>(blocks, static_cast<int64_t>(resident) * context_.multiprocessors);
    p.partial = context_.Scratch<float>(blocks * cols, "NormBackward");
    kernel<<<static_cast<unsigned>(blocks), shape.threads, 0, context_.stream>>>(p, rows, cols,
                                                                                 shape.groups);
  });
  GainGradientKernel<<<static_cast<unsigned>((cols + 31) / 32), dim3(32, 32), 0, context_.stream>>>(
      p.partial, static_cast<int>(blocks), cols, args.dgamma.as<float>());
  CudaCheck(cudaGetLastError(), "NormBackward");
}

}  // namespace coat
