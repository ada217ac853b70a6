#include "configs/base/error.h"
#include "worker/ops/check_args.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/ops/cuda/gemm_plans.h"

namespace coat {
namespace {

constexpr int kTile = 16;

struct Operand {
  const void* data;
  DType dtype;
  int64_t ld;
  bool transposed;

  __device__ float At(int64_t row, int64_t k) const {
    const int64_t i = transposed ? k * ld + row : row * ld + k;
    switch (dtype) {
      case DType::kF32: return static_cast<const float*>(data)[i];
      case DType::kBF16: return FloatFromBf16(static_cast<const uint16_t*>(data)[i]);
      case DType::kE5M2: return Fp8Decode<E5M2>(static_cast<const uint8_t*>(data)[i]);
      default: return Fp8Decode<E4M3>(static_cast<const uint8_t*>(data)[i]);
    }
  }
};

__global__ void SimpleGemmKernel(Operand a, Operand b, const float* a_scale, const float* b_scale,
                                 void* c, bool c_bf16, int64_t ld, int64_t m, int64_t n, int64_t k,
                                 bool accumulate) {
  __shared__ float tile_a[kTile][kTile + 1];
  __shared__ float tile_b[kTile][kTile + 1];
  const int64_t row = blockIdx.y * static_cast<int64_t>(kTile) + threadIdx.y;
  const int64_t col = blockIdx.x * static_cast<int64_t>(kTile) + threadIdx.x;
  const int64_t b_row = blockIdx.x * static_cast<int64_t>(kTile) + threadIdx.y;
  float sum = 0;
  for (int64_t k0 = 0; k0 < k; k0 += kTile) {
    const int64_t at = k0 + threadIdx.x;
    tile_a[threadIdx.y][threadIdx.x] = row < m && at < k ? a.At(row, at) : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = b_row < n && at < k ? b.At(b_row, at) : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      sum = fmaf(tile_a[threadIdx.y][i], tile_b[threadIdx.x][i], sum);
    }
    __syncthreads();
  }
  if (row >= m || col >= n) return;
  if (a_scale != nullptr) sum *= *a_scale * *b_scale;
  if (c_bf16) {
    uint16_t* out = static_cast<uint16_t*>(c) + row * ld + col;
    *out = Bf16Bits(accumulate ? FloatFromBf16(*out) + sum : sum);
  } else {
    float* out = static_cast<float*>(c) + row * ld + col;
    *out = accumulate ? *out + sum : sum;
  }
}

}  // namespace

void SimpleGemm(const GemmArgs& args, cudaStream_t stream) {
  const int64_t m = args.c.rows();
  const int64_t n = args.c.cols();
  const int64_t k = args.a_transposed ? args.a.rows() : args.a.cols();
  if (m == 0 || n == 0) return;
  const dim3 grid(static_cast<unsigned>((n + kTile - 1) / kTile),
                  static_cast<unsigned>((m + kTile - 1) / kTile));
  const Operand a{args.a.data, args.a.dtype, args.a.ld, args.a_transposed};
  const Operand b{args.b.data, args.b.dtype, args.b.ld, args.b_transposed};
  SimpleGemmKernel<<<grid, dim3(kTile, kTile), 0, stream>>>(
      a, b, args.a_scale.as<float>(), args.b_scale.as<float>(), args.c.data,
      args.c.dtype == DType::kBF16, args.c.ld, m, n, k, args.accumulate);
  CudaCheck(cudaGetLastError(), "SimpleGemm");
}

void CudaOps::Gemm(const GemmArgs& args) {
  CheckArgs(args);
  if (!gemm_->Run(args)) SimpleGemm(args, context_.stream);
}

}  // namespace coat
