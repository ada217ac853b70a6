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
template <int kPerThread, bool kWhole>
__global__ void __maxnreg__(MaxRowRegisters(kPerThread))
    AddNormKernel(AddNormPointers p, int64_t cols, int groups, float eps) {
  __shared__ float scratch[33];
  const int64_t row = blockIdx.x;
  Group16 x[kPerThread];
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int g = threadIdx.x + k * blockDim.x;
    if (g >= groups) break;
    const int64_t col = static_cast<int64_t>(g) * kGroup;
    const int n = GroupCount<kWhole>(cols - col);
    const int64_t at = row * cols + col;
    Packed16 packed = LoadPacked<kWhole>(p.residual + at, n);
    x[k] = Unpack(packed);
    if (p.branch != nullptr) {
      const Group16 b = LoadGroup<kWhole>(p.branch + at, n);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[k].v[i] = __fadd_rn(x[k].v[i], b.v[i]);
      packed = Pack(x[k]);
      StorePacked<kWhole>(packed, p.residual_out + at, n);
      x[k] = Unpack(packed);
    }
    if (p.codes != nullptr) {
      const float magnitude = GroupMagnitude(packed);
      const uint16_t scale = GroupScale(magnitude);
      const float s = FloatFromBf16(scale);
      const uint4 codes = EncodeGroup<DType::kE4M3>(x[k], __frcp_rn(s), magnitude);
      StoreCodes<kWhole>(codes, p.codes + at, n);
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
  float largest = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int g = threadIdx.x + k * blockDim.x;
    if (g >= groups) break;
    const int64_t col = static_cast<int64_t>(g) * kGroup;
    const int n = GroupCount<kWhole>(cols - col);
    const Group16 gamma = LoadGroup<kWhole>(p.gamma + col, n);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) largest = MaxMagnitude(largest, NormValue(x[k].v[i], rstd, gamma.v[i]));
    }
  }
  const uint32_t bits = BlockMax(__float_as_uint(largest), reinterpret_cast<uint32_t*>(scratch));
  if (threadIdx.x == 0) p.amax[row] = __uint_as_float(bits);
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
  if (rows == 0) return;
  ForRowShape(shape, [&]<int kPerThread, bool kWhole>() {
    AddNormKernel<kPerThread, kWhole>
        <<<grid, shape.threads, 0, context_.stream>>>(p, shape.cols, shape.groups, args.eps);
  });
  CudaCheck(cudaGetLastError(), "AddNorm");
}

}  // namespace coat
