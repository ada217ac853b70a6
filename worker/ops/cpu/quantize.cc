#include <algorithm>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

template <typename F>
void QuantizeAs(const QuantizeArgs& args, ThreadPool& pool) {
  const float inverse = InverseScale(*args.scale.as<float>());
  WriteCodes(args.x.rows(), args.x.cols(), args.codes, args.codes_transposed, pool,
             [&](int64_t row, int64_t col, int64_t n, uint8_t* codes) {
               float x[kTile];
               LoadTile(args.x, row, col, n, x);
               for (int64_t i = 0; i < n; ++i) codes[i] = Fp8Encode<F>(x[i] * inverse);
             });
}

}  // namespace

void CpuOps::Amax(const AmaxArgs& args) {
  CheckArgs(args);
  float* amax = args.amax.as<float>();
  pool_.ParallelFor(args.x.rows(), kRowGrain, [&](int64_t begin, int64_t end) {
    float x[kTile];
    for (int64_t row = begin; row < end; ++row) {
      uint32_t largest = 0;
      ForTiles(args.x.cols(), [&](int64_t col, int64_t n) {
        LoadTile(args.x, row, col, n, x);
        largest = MaxMagnitude(x, n, largest);
      });
      amax[row] = BitsFloat(largest);
    }
  });
}

void CpuOps::AmaxToScale(const AmaxToScaleArgs& args) {
  CheckArgs(args);
  const uint32_t largest = MaxMagnitude(args.amax.as<float>(), args.amax.numel(), 0);
  const float amax = BitsFloat(largest);
  *args.scale.as<float>() =
      args.format == DType::kE4M3 ? TensorScale<E4M3>(amax) : TensorScale<E5M2>(amax);
  if (largest >= kInfinityBits) *args.nonfinite.as<int32_t>() = 1;
}

void CpuOps::Quantize(const QuantizeArgs& args) {
  CheckArgs(args);
  const Tensor& out = args.codes.empty() ? args.codes_transposed : args.codes;
  if (out.dtype == DType::kE4M3) {
    QuantizeAs<E4M3>(args, pool_);
  } else {
    QuantizeAs<E5M2>(args, pool_);
  }
}

void CpuOps::Transpose(const TransposeArgs& args) {
  CheckArgs(args);
  WriteCodes(args.x.rows(), args.x.cols(), Tensor(), args.out, pool_,
             [&](int64_t row, int64_t col, int64_t n, uint8_t* codes) {
               std::copy_n(At<uint8_t>(args.x, row, col), n, codes);
             });
}

void CpuOps::Cast(const CastArgs& args) {
  CheckArgs(args);
  const int64_t count = args.x.numel();
  const Tensor x = args.x.Reshape({count}), out = args.out.Reshape({count});
  pool_.ParallelFor(count, kTile * kRowGrain, [&](int64_t begin, int64_t end) {
    float tile[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(kTile, end - i);
      LoadTile(x, 0, i, n, tile);
      StoreTile(tile, n, out, 0, i);
    }
  });
}

}  // namespace coat
