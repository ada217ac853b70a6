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
  bool whole = false;  // both halves are made of whole groups

  template <bool kWhole>
  __device__ Group16 Gate(int64_t row, int64_t col, int n) const {
    return x.Load<kWhole>(row, col, col / kGroup, n);
  }
  template <bool kWhole>
  __device__ Group16 Up(int64_t row, int64_t col, int n) const {
    return x.Load<kWhole>(row, width + col, groups + col / kGroup, n);
  }
};

GateUp MakeGateUp(const Activation& x) {
  GateUp view;
  view.x = MakeActivation(x);
  view.width = view.x.cols / 2;
  view.groups = CeilDiv(view.width, kGroup);
  view.whole = view.width % kGroup == 0;
  return view;
}

struct ProductSource {
  GateUp x;
  const float* scale;
  float inverse = 0;

  template <bool kWhole>
  __device__ void Prepare(int64_t, int) {
    inverse = __frcp_rn(*scale);
  }
  template <bool kWhole>
  __device__ Group16 Values(int64_t row, int64_t col, int n) const {
    Group16 gate = x.Gate<kWhole>(row, col, n);
    const Group16 up = x.Up<kWhole>(row, col, n);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      gate.v[i] = i < n ? SwigluApprox(gate.v[i], up.v[i]) : 0.0f;
    }
    return gate;
  }
  template <bool kWhole>
  __device__ uint4 Codes(int64_t row, int64_t col, int n) const {
    return EncodeGroup<DType::kE4M3>(Values<kWhole>(row, col, n), inverse);
  }
};

// Quantizes n values at `from`; what they decode to.
template <bool kWhole>
__device__ inline Group16 QuantizeHalf(const uint16_t* from, uint8_t* codes, uint16_t* scale,
                                       int n) {
  const Packed16 x = LoadPacked<kWhole>(from, n);
  const float magnitude = GroupMagnitude(x);
  const uint16_t bits = GroupScale(magnitude);
  const float s = FloatFromBf16(bits);
  const uint4 c = EncodeGroup<DType::kE4M3>(Unpack(x), __frcp_rn(s), magnitude);
  StoreCodes<kWhole>(c, codes, n);
  *scale = bits;
  Group16 decoded = DecodeGroup(c);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) decoded.v[i] = __fmul_rn(decoded.v[i], s);
  return decoded;
}

// All threads of the block call.
__device__ inline void StoreRowAmax(float largest, float* amax) {
  __shared__ uint32_t scratch[33];
  const uint32_t bits = BlockMax(__float_as_uint(largest), scratch);
  if (threadIdx.x == 0) amax[blockIdx.x] = __uint_as_float(bits);
}

// `x` is BF16.
template <bool kWhole>
__global__ void GateUpKernel(GateUp x, uint8_t* codes, uint16_t* scales, float* amax) {
  const int64_t row = blockIdx.x;
  float largest = 0;
  for (int64_t g = threadIdx.x; g < x.groups; g += blockDim.x) {
    const int64_t col = g * kGroup;
    const int n = GroupCount<kWhole>(x.width - col);
    Group16 gate, up;
    if (codes != nullptr) {
      const uint16_t* from = x.x.bf16 + row * 2 * x.width + col;
      uint8_t* at = codes + row * 2 * x.width + col;
      uint16_t* scale = scales + row * 2 * x.groups + g;
      gate = QuantizeHalf<kWhole>(from, at, scale, n);
      up = QuantizeHalf<kWhole>(from + x.width, at + x.width, scale + x.groups, n);
    } else {
      gate = x.Gate<kWhole>(row, col, n);
      up = x.Up<kWhole>(row, col, n);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < n) largest = MaxMagnitude(largest, SwigluApprox(gate.v[i], up.v[i]));
    }
  }
  if (amax != nullptr) StoreRowAmax(largest, amax);
}

template <bool kWhole>
__global__ void ProductToBf16Kernel(ProductSource source, uint16_t* out) {
  const int64_t row = blockIdx.x;
  for (int64_t g = threadIdx.x; g < source.x.groups; g += blockDim.x) {
    const int64_t col = g * kGroup;
    const int n = GroupCount<kWhole>(source.x.width - col);
    StoreGroup<kWhole>(source.Values<kWhole>(row, col, n), out + row * source.x.width + col, n);
  }
}

template <bool kWhole>
__global__ void SwigluBackwardKernel(GateUp x, const uint16_t* dy, uint16_t* out, float* amax) {
  const int64_t row = blockIdx.x;
  float largest = 0;
  for (int64_t g = threadIdx.x; g < x.groups; g += blockDim.x) {
    const int64_t col = g * kGroup;
    const int n = GroupCount<kWhole>(x.width - col);
    Group16 gate = x.Gate<kWhole>(row, col, n);
    Group16 up = x.Up<kWhole>(row, col, n);
    const Group16 grad = LoadGroup<kWhole>(dy + row * x.width + col, n);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const SwigluGradient d = SwigluBackwardApprox(gate.v[i], up.v[i], grad.v[i]);
      gate.v[i] = d.gate;
      up.v[i] = d.up;
    }
    uint16_t* at = out + row * 2 * x.width + col;
    const Packed16 dgate = Pack(gate);
    const Packed16 dup = Pack(up);
    StorePacked<kWhole>(dgate, at, n);
    StorePacked<kWhole>(dup, at + x.width, n);
    largest = MaxMagnitude(MaxMagnitude(largest, GroupMagnitude(dgate)), GroupMagnitude(dup));
  }
  if (amax != nullptr) StoreRowAmax(largest, amax);
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
  const auto kernel = x.whole ? GateUpKernel<true> : GateUpKernel<false>;
  kernel<<<static_cast<unsigned>(rows), RowThreads(x.groups), 0, context_.stream>>>(
      x, args.q8.codes.as<uint8_t>(), args.q8.scales.as<uint16_t>(), args.amax.as<float>());
  CudaCheck(cudaGetLastError(), "GateUpQuantize");
}

void CudaOps::Swiglu(const SwigluArgs& args) {
  const ProductSource source{MakeGateUp(args.gate_up), args.scale.as<float>()};
  const int64_t rows = ActivationRows(args.gate_up);
  if (rows == 0) return;
  if (!args.out.empty() && args.out.dtype == DType::kBF16) {
    const auto kernel = source.x.whole ? ProductToBf16Kernel<true> : ProductToBf16Kernel<false>;
    kernel<<<static_cast<unsigned>(rows), RowThreads(source.x.groups), 0, context_.stream>>>(
        source, args.out.as<uint16_t>());
  } else {
    LaunchQuantizeTile(source, source.x.whole,
                       MakeTileOutputs(args.out, args.out_transposed, rows, source.x.width),
                       context_.stream);
  }
  CudaCheck(cudaGetLastError(), "Swiglu");
}

void CudaOps::SwigluBackward(const SwigluBackwardArgs& args) {
  Expect(args.dy, DType::kBF16, "SwigluBackward.dy");
  const GateUp x = MakeGateUp(args.gate_up);
  const int64_t rows = args.dy.rows();
  if (rows == 0) return;
  const auto kernel = x.whole ? SwigluBackwardKernel<true> : SwigluBackwardKernel<false>;
  kernel<<<static_cast<unsigned>(rows), RowThreads(x.groups), 0, context_.stream>>>(
      x, args.dy.as<uint16_t>(), args.dgate_up.as<uint16_t>(), args.amax.as<float>());
  CudaCheck(cudaGetLastError(), "SwigluBackward");
}

}  // namespace coat
