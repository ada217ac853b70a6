#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/quantize_tile.cuh"
#include "worker/ops/cuda/views.h"
#include "worker/precision/fp8.h"
#include "worker/precision/fused.h"

namespace coat {
namespace {

// [gate | up] of one row; groups never straddle the halves.
struct GateUp {
  DeviceActivation x;
  int64_t width = 0;   // f
  int64_t groups = 0;  // of one half
  bool aligned = false;

  __device__ Group16 Gate(int64_t row, int64_t col, int n) const {
    DeviceActivation half = x;
    half.aligned = aligned;
    return half.Load(row, col, col / kGroup, n);
  }
  __device__ Group16 Up(int64_t row, int64_t col, int n) const {
    DeviceActivation half = x;
    half.aligned = aligned;
    return half.Load(row, width + col, groups + col / kGroup, n);
  }
};

GateUp MakeGateUp(const Activation& x) {
  GateUp view;
  view.x = MakeActivation(x);
  view.width = view.x.cols / 2;
  view.groups = CeilDiv(view.width, kGroup);
  view.aligned = view.width % kGroup == 0;
  return view;
}

struct ProductSource {
  GateUp x;
  const float* scale;
  __device__ Group16 Values(int64_t row, int64_t col, int n) const {
    Group16 gate = x.Gate(row, col, n);
    const Group16 up = x.Up(row, col, n);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      gate.v[i] = i < n ? SwigluApprox(gate.v[i], up.v[i]) : 0.0f;
    }
    return gate;
  }
  __device__ uint4 Codes(int64_t row, int64_t col, int n) const {
    return EncodeGroup<DType::kE4M3>(Values(row, col, n), __frcp_rn(*scale));
  }
};

__device__ inline Group16 QuantizeHalf(const Group16& x, uint8_t* codes, uint16_t* scale, int n,
                                       bool aligned) {
  const uint16_t bits = GroupScale(__uint_as_float(GroupMagnitude(x)));
  const float s = FloatFromBf16(bits);
  const uint4 c = EncodeGroup<DType::kE4M3>(x, __frcp_rn(s));
  StoreCodes(c, codes, n, aligned);
  *scale = bits;
  Group16 decoded = DecodeGroup(c);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) decoded.v[i] = __fmul_rn(decoded.v[i], s);
  return decoded;
}

__global__ void GateUpKernel(GateUp x, uint8_t* codes, uint16_t* scales, float* amax) {
  __shared__ uint32_t scratch[33];
  const int64_t row = blockIdx.x;
  uint32_t largest = 0;
  for (int64_t g = threadIdx.x; g < x.groups; g += blockDim.x) {
    const int64_t col = g * kGroup;
    const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), x.width - col));
    Group16 gate = x.Gate(row, col, n);
    Group16 up = x.Up(row, col, n);
    if (codes != nullptr) {
      uint8_t* at = codes + row * 2 * x.width + col;
      uint16_t* scale = scales + row * 2 * x.groups + g;
      gate = QuantizeHalf(gate, at, scale, n, x.aligned);
      up = QuantizeHalf(up, at + x.width, scale + x.groups, n, x.aligned);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) largest = max(largest, MagnitudeBits(SwigluApprox(gate.v[i], up.v[i])));
    }
  }
  if (amax == nullptr) return;
  largest = BlockMax(largest, scratch);
  if (threadIdx.x == 0) amax[row] = __uint_as_float(largest);
}

__global__ void ProductToBf16Kernel(ProductSource source, uint16_t* out) {
  const int64_t row = blockIdx.x;
  for (int64_t g = threadIdx.x; g < source.x.groups; g += blockDim.x) {
    const int64_t col = g * kGroup;
    const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), source.x.width - col));
    StoreGroup(source.Values(row, col, n), out + row * source.x.width + col, n, source.x.aligned);
  }
}

__global__ void SwigluBackwardKernel(GateUp x, const uint16_t* dy, uint16_t* out, float* amax) {
  __shared__ uint32_t scratch[33];
  const int64_t row = blockIdx.x;
  uint32_t largest = 0;
  for (int64_t g = threadIdx.x; g < x.groups; g += blockDim.x) {
    const int64_t col = g * kGroup;
    const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), x.width - col));
    Group16 gate = x.Gate(row, col, n);
    Group16 up = x.Up(row, col, n);
    const Group16 grad = LoadGroup(dy + row * x.width + col, n, x.aligned);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const SwigluGradient d = SwigluBackwardApprox(gate.v[i], up.v[i], grad.v[i]);
      gate.v[i] = Bf16Rounded(d.gate);
      up.v[i] = Bf16Rounded(d.up);
    }
    uint16_t* at = out + row * 2 * x.width + col;
    StoreGroup(gate, at, n, x.aligned);
    StoreGroup(up, at + x.width, n, x.aligned);
    largest = max(largest, max(GroupMagnitude(gate), GroupMagnitude(up)));
  }
  if (amax == nullptr) return;
  largest = BlockMax(largest, scratch);
  if (threadIdx.x == 0) amax[row] = __uint_as_float(largest);
}

int RowThreads(int64_t groups) {
  return static_cast<int>(std::min<int64_t>(256, (groups + 31) / 32 * 32));
}

}  // namespace

void CudaOps::GateUpQuantize(const GateUpQuantizeArgs& args) {
  Expect(args.gate_up, DType::kBF16, "GateUpQuantize.gate_up");
  const GateUp x = MakeGateUp({args.gate_up, {}});
  const int64_t rows = args.gate_up.rows();
  if (rows == 0) return;
  GateUpKernel<<<static_cast<unsigned>(rows), RowThreads(x.groups), 0, context_.stream>>>(
      x, args.q8.codes.as<uint8_t>(), args.q8.scales.as<uint16_t>(), args.amax.as<float>());
  CudaCheck(cudaGetLastError(), "GateUpQuantize");
}

void CudaOps::Swiglu(const SwigluArgs& args) {
  const ProductSource source{MakeGateUp(args.gate_up), args.scale.as<float>()};
  const int64_t rows = ActivationRows(args.gate_up);
  if (rows == 0) return;
  if (!args.out.empty() && args.out.dtype == DType::kBF16) {
    ProductToBf16Kernel<<<static_cast<unsigned>(rows), RowThreads(source.x.groups), 0,
                          context_.stream>>>(source, args.out.as<uint16_t>());
  } else {
    LaunchQuantizeTile(source, MakeTileOutputs(args.out, args.out_transposed, rows, source.x.width),
                       context_.stream);
  }
  CudaCheck(cudaGetLastError(), "Swiglu");
}

void CudaOps::SwigluBackward(const SwigluBackwardArgs& args) {
  Expect(args.dy, DType::kBF16, "SwigluBackward.dy");
  const GateUp x = MakeGateUp(args.gate_up);
  const int64_t rows = args.dy.rows();
  if (rows == 0) return;
  SwigluBackwardKernel<<<static_cast<unsigned>(rows), RowThreads(x.groups), 0, context_.stream>>>(
      x, args.dy.as<uint16_t>(), args.dgate_up.as<uint16_t>(), args.amax.as<float>());
  CudaCheck(cudaGetLastError(), "SwigluBackward");
}

}  // namespace coat
