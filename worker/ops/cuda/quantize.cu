#include <type_traits>

#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/quantize_tile.cuh"
#include "worker/ops/cuda/views.h"
#include "worker/precision/fp8.h"

namespace coat {
namespace {

template <typename Value, DType kFormat>
struct TensorSource {
  const Value* x;
  const float* scale;
  int64_t ld;
  float inverse = 0;
  template <bool kWhole>
  __device__ void Prepare(int64_t, int) {
    inverse = __frcp_rn(*scale);
  }
  template <bool kWhole>
  __device__ uint4 Codes(int64_t row, int64_t col, int n) const {
    if constexpr (std::is_same_v<Value, uint16_t>) {
      const Packed16 packed = LoadPacked<kWhole>(x + row * ld + col, n);
      return EncodeGroup<kFormat>(Unpack(packed), inverse, GroupMagnitude(packed));
    } else {
      return EncodeGroup<kFormat>(LoadGroup<kWhole>(x + row * ld + col, n), inverse);
    }
  }
};

struct CodeSource {
  const uint8_t* x;
  int64_t ld;
  template <bool kWhole>
  __device__ void Prepare(int64_t, int) {}
  template <bool kWhole>
  __device__ uint4 Codes(int64_t row, int64_t col, int n) const {
    return LoadCodes<kWhole>(x + row * ld + col, n);
  }
};

template <bool kWhole, typename Value>
__global__ void AmaxKernel(const Value* x, int64_t ld, int64_t cols, float* amax) {
  __shared__ uint32_t scratch[33];
  const int64_t row = blockIdx.x;
  float largest = 0;
  for (int64_t col = threadIdx.x * kGroup; col < cols; col += blockDim.x * kGroup) {
    const int n = GroupCount<kWhole>(cols - col);
    const Value* at = x + row * ld + col;
    if constexpr (std::is_same_v<Value, uint16_t>) {
      largest = MaxMagnitude(largest, GroupMagnitude(LoadPacked<kWhole>(at, n)));
    } else {
      largest = MaxMagnitude(largest, GroupMagnitude(LoadGroup<kWhole>(at, n)));
    }
  }
  const uint32_t bits = BlockMax(__float_as_uint(largest), scratch);
  if (threadIdx.x == 0) amax[row] = __uint_as_float(bits);
}

// One block, since few values are left: its time is that of its loads, so they are wide and many.
// `vectors`: of four values, before the rest.
__global__ void AmaxToScaleKernel(const float* amax, int64_t vectors, int64_t count, DType format,
                                  float* scale, int32_t* nonfinite) {
  __shared__ uint32_t scratch[33];
  uint32_t largest = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    const float4 x = reinterpret_cast<const float4*>(amax)[i];
    largest = max(max(largest, max(MagnitudeBits(x.x), MagnitudeBits(x.y))),
                  max(MagnitudeBits(x.z), MagnitudeBits(x.w)));
  }
  for (int64_t i = 4 * vectors + threadIdx.x; i < count; i += blockDim.x) {
    largest = max(largest, MagnitudeBits(amax[i]));
  }
  largest = BlockMax(largest, scratch);
  if (threadIdx.x != 0) return;
  const float value = __uint_as_float(largest);
  *scale = format == DType::kE5M2 ? TensorScale<E5M2>(value) : TensorScale<E4M3>(value);
  if (largest >= 0x7f800000u) *nonfinite = 1;
}

template <typename From, typename To>
__global__ void CastKernel(const From* x, To* out, int64_t count) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  if constexpr (sizeof(From) == 4) {
    out[i] = Bf16Bits(x[i]);
  } else {
    out[i] = FloatFromBf16(x[i]);
  }
}

}  // namespace

void CudaOps::Amax(const AmaxArgs& args) {
  Expect(args.amax, DType::kF32, "Amax.amax");
  const int64_t rows = args.x.rows();
  const int64_t cols = args.x.cols();
  if (rows == 0) return;
  const bool whole = HasWholeGroups(args.x);
  const int64_t groups = (cols + kGroup - 1) / kGroup;
  const int threads = static_cast<int>(std::min<int64_t>(512, (groups + 31) / 32 * 32));
  const auto launch = [&]<typename Value>(const Value* x) {
    const auto kernel = whole ? AmaxKernel<true, Value> : AmaxKernel<false, Value>;
    kernel<<<static_cast<unsigned>(rows), threads, 0, context_.stream>>>(x, args.x.ld, cols,
                                                                         args.amax.as<float>());
  };
  if (args.x.dtype == DType::kF32) {
    launch(args.x.as<float>());
  } else {
    Expect(args.x, DType::kBF16, "Amax.x");
    launch(args.x.as<uint16_t>());
  }
  CudaCheck(cudaGetLastError(), "Amax");
}

void CudaOps::AmaxToScale(const AmaxToScaleArgs& args) {
  Expect(args.amax, DType::kF32, "AmaxToScale.amax");
  const auto* amax = args.amax.as<float>();
  const int64_t count = args.amax.numel();
  const int64_t vectors = reinterpret_cast<uintptr_t>(amax) % sizeof(float4) == 0 ? count / 4 : 0;
  AmaxToScaleKernel<<<1, 1024, 0, context_.stream>>>(
      amax, vectors, count, args.format, args.scale.as<float>(), args.nonfinite.as<int32_t>());
  CudaCheck(cudaGetLastError(), "AmaxToScale");
}

void CudaOps::Quantize(const QuantizeArgs& args) {
  const int64_t rows = args.x.rows();
  const int64_t cols = args.x.cols();
  const TileOutputs o = MakeTileOutputs(args.codes, args.codes_transposed, rows, cols);
  const bool whole = HasWholeGroups(args.x);
  const DType format = args.codes.empty() ? args.codes_transposed.dtype : args.codes.dtype;
  const auto launch = [&]<typename Value>(const Value* x) {
    if (format == DType::kE5M2) {
      const TensorSource<Value, DType::kE5M2> source{x, args.scale.as<float>(), args.x.ld};
      LaunchQuantizeTile(source, whole, o, context_.stream);
    } else {
      const TensorSource<Value, DType::kE4M3> source{x, args.scale.as<float>(), args.x.ld};
      LaunchQuantizeTile(source, whole, o, context_.stream);
    }
  };
  if (args.x.dtype == DType::kF32) {
    launch(args.x.as<float>());
  } else {
    Expect(args.x, DType::kBF16, "Quantize.x");
    launch(args.x.as<uint16_t>());
  }
  CudaCheck(cudaGetLastError(), "Quantize");
}

void CudaOps::Transpose(const TransposeArgs& args) {
  const TileOutputs o = MakeTileOutputs(Tensor(), args.out, args.x.rows(), args.x.cols());
  LaunchQuantizeTile(CodeSource{args.x.as<uint8_t>(), args.x.ld}, HasWholeGroups(args.x), o,
                     context_.stream);
  CudaCheck(cudaGetLastError(), "Transpose");
}

void CudaOps::Cast(const CastArgs& args) {
  const int64_t count = args.x.numel();
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  if (args.x.dtype == DType::kF32) {
    Expect(args.out, DType::kBF16, "Cast.out");
    CastKernel<<<blocks, 256, 0, context_.stream>>>(args.x.as<float>(), args.out.as<uint16_t>(),
                                                    count);
  } else {
    Expect(args.x, DType::kBF16, "Cast.x");
    Expect(args.out, DType::kF32, "Cast.out");
    CastKernel<<<blocks, 256, 0, context_.stream>>>(args.x.as<uint16_t>(), args.out.as<float>(),
                                                    count);
  }
  CudaCheck(cudaGetLastError(), "Cast");
}

}  // namespace coat
