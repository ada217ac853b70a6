#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/quantize_tile.cuh"
#include "worker/ops/cuda/views.h"
#include "worker/precision/fused.h"

namespace coat {
namespace {

struct NormSource {
  DeviceActivation x;
  const float* rstd;
  const float* gamma;
  const float* scale;  // null for BF16 outputs
  Group16 gain = {};   // of this thread's columns
  float inverse = 0;

  template <bool kWhole>
  __device__ void Prepare(int64_t col, int n) {
    gain = LoadGroup<kWhole>(gamma + col, n);
    if (scale != nullptr) inverse = __frcp_rn(*scale);
  }
  template <bool kWhole>
  __device__ Group16 Values(int64_t row, int64_t col, int n) const {
    Group16 v = x.Load<kWhole>(row, col, col / kGroup, n);
    const float r = rstd[row];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) v.v[i] = i < n ? NormValue(v.v[i], r, gain.v[i]) : 0.0f;
    return v;
  }
  template <bool kWhole>
  __device__ uint4 Codes(int64_t row, int64_t col, int n) const {
    return EncodeGroup<DType::kE4M3>(Values<kWhole>(row, col, n), inverse);
  }
};

// A thread takes one group of columns in eight rows, so that the gain is read once.
template <bool kWhole>
__global__ void NormToBf16Kernel(NormSource source, uint16_t* out, int64_t rows, int64_t cols) {
  const int64_t col = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * kGroup;
  if (col >= cols) return;
  const int n = GroupCount<kWhole>(cols - col);
  source.Prepare<kWhole>(col, n);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * 8;
  const int64_t last = min(rows, first + 8);
  for (int64_t row = first; row < last; ++row) {
    StoreGroup<kWhole>(source.Values<kWhole>(row, col, n), out + row * cols + col, n);
  }
}

}  // namespace

void CudaOps::NormApply(const NormApplyArgs& args) {
  const NormSource source{MakeActivation(args.x), args.rstd.as<float>(), args.gamma.as<float>(),
                          args.scale.as<float>()};
  const int64_t rows = ActivationRows(args.x);
  const int64_t cols = source.x.cols;
  if (!args.out.empty() && args.out.dtype == DType::kBF16) {
    const int64_t groups = CeilDiv(cols, kGroup);
    const dim3 grid(static_cast<unsigned>(CeilDiv(groups, 128)),
                    static_cast<unsigned>(CeilDiv(rows, 8)));
    const auto kernel = source.x.whole ? NormToBf16Kernel<true> : NormToBf16Kernel<false>;
    kernel<<<grid, 128, 0, context_.stream>>>(source, args.out.as<uint16_t>(), rows, cols);
  } else {
    LaunchQuantizeTile(source, source.x.whole,
                       MakeTileOutputs(args.out, args.out_transposed, rows, cols), context_.stream);
  }
  CudaCheck(cudaGetLastError(), "NormApply");
}

}  // namespace coat
