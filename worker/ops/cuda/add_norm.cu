#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/norm.cuh"
#include "worker/ops/cuda/views.h"
#include "worker/precision/fp8.h"
#include "worker/precision/fused.h"

namespace coat {
namespace {

struct AddNormPointers {
  const uint16_t* residual;
  const uint16_t* branch;
  uint16_t* residual_out;
  uint8_t* codes;
  uint16_t* scales;
  const float* gamma;
  float* rstd;
  float* amax;
};

// One block a row; a thread keeps its groups in registers between the two reductions.
template <int kPerThread>
__global__ void AddNormKernel(AddNormPointers p, int64_t cols, int groups, bool aligned,
                              float eps) {
  __shared__ float scratch[33];
  const int64_t row = blockIdx.x;
  Group16 x[kPerThread];
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int g = threadIdx.x + k * blockDim.x;
    if (g >= groups) break;
    const int64_t col = static_cast<int64_t>(g) * kGroup;
    const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), cols - col));
    const int64_t at = row * cols + col;
    x[k] = LoadGroup(p.residual + at, n, aligned);
    if (p.branch != nullptr) {
      const Group16 b = LoadGroup(p.branch + at, n, aligned);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[k].v[i] = Bf16Rounded(__fadd_rn(x[k].v[i], b.v[i]));
      StoreGroup(x[k], p.residual_out + at, n, aligned);
    }
    if (p.codes != nullptr) {
      const uint16_t scale = GroupScale(__uint_as_float(GroupMagnitude(x[k])));
      const float s = FloatFromBf16(scale);
      const uint4 codes = EncodeGroup<DType::kE4M3>(x[k], __frcp_rn(s));
      StoreCodes(codes, p.codes + at, n, aligned);
      p.scales[row * groups + g] = scale;
      x[k] = DecodeGroup(codes);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[k].v[i] = __fmul_rn(x[k].v[i], s);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) squares += i < n ? x[k].v[i] * x[k].v[i] : 0.0f;
  }
  const float sum = BlockSum(squares, scratch);
  const float rstd = 1.0f / sqrtf(sum / static_cast<float>(cols) + eps);
  if (threadIdx.x == 0) p.rstd[row] = rstd;
  if (p.amax == nullptr) return;
  uint32_t largest = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int g = threadIdx.x + k * blockDim.x;
    if (g >= groups) break;
    const int64_t col = static_cast<int64_t>(g) * kGroup;
    const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), cols - col));
    const Group16 gamma = LoadGroup(p.gamma + col, n, aligned);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) largest = max(largest, MagnitudeBits(NormValue(x[k].v[i], rstd, gamma.v[i])));
    }
  }
  largest = BlockMax(largest, reinterpret_cast<uint32_t*>(scratch));
  if (threadIdx.x == 0) p.amax[row] = __uint_as_float(largest);
}

}  // namespace

void CudaOps::AddNorm(const AddNormArgs& args) {
  Expect(args.residual, DType::kBF16, "AddNorm.residual");
  Expect(args.gamma, DType::kF32, "AddNorm.gamma");
  Expect(args.rstd, DType::kF32, "AddNorm.rstd");
  const int64_t rows = args.residual.rows();
  const RowShape shape = MakeRowShape(args.residual.cols());
  const AddNormPointers p{
      args.residual.as<uint16_t>(), args.branch.as<uint16_t>(),    args.residual_out.as<uint16_t>(),
      args.q8.codes.as<uint8_t>(),  args.q8.scales.as<uint16_t>(), args.gamma.as<float>(),
      args.rstd.as<float>(),        args.amax.as<float>()};
  Check(args.branch.empty() || !args.residual_out.empty(), "AddNorm.residual_out is missing");
  Check(shape.threads * shape.per_thread >= shape.groups, "AddNorm: rows longer than 65536");
  const auto grid = static_cast<unsigned>(rows);
  const auto launch = [&](auto kernel) {
    kernel<<<grid, shape.threads, 0, context_.stream>>>(p, shape.cols, shape.groups, shape.aligned,
                                                        args.eps);
  };
  if (rows == 0) return;
  if (shape.per_thread == 1) launch(AddNormKernel<1>);
  if (shape.per_thread == 2) launch(AddNormKernel<2>);
  if (shape.per_thread == 4) launch(AddNormKernel<4>);
  CudaCheck(cudaGetLastError(), "AddNorm");
}

}  // namespace coat
