// One kernel shape for everything that writes FP8 operands of a GEMM: 16 codes a thread, written
// along the row, along the column (transposed through shared memory), or both.
#pragma once

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {

inline constexpr int kTileRows = 128;
inline constexpr int kTileCols = 64;
inline constexpr int kTileThreads = 256;
inline constexpr int kTileStride = kTileRows + 4;  // bytes; spreads columns over the banks

struct TileOutputs {
  uint8_t* out = nullptr;  // (rows, cols), ld
  int64_t ld = 0;
  uint8_t* transposed = nullptr;  // (cols, rows), ld_transposed
  int64_t ld_transposed = 0;
  int64_t rows = 0, cols = 0;
  int64_t padded_rows = 0, padded_cols = 0;  // written with zeros beyond rows and cols
};

// Source: `uint4 Codes(row, col, n)`, n valid elements (1..16); called for row < rows only.
template <typename Source>
__global__ void __launch_bounds__(kTileThreads) QuantizeTileKernel(Source source, TileOutputs o) {
  __shared__ __align__(16) uint8_t tile[kTileCols * kTileStride];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * kTileCols;
  const int local_col = (threadIdx.x % 4) * kGroup;
#pragma unroll
  for (int pass = 0; pass < 2; ++pass) {
    const int local_row = threadIdx.x / 4 + pass * 64;
    const int64_t row = row0 + local_row;
    const int64_t col = col0 + local_col;
    uint4 codes = make_uint4(0, 0, 0, 0);
    if (row < o.rows && col < o.cols) {
      const int n = static_cast<int>(min(static_cast<int64_t>(kGroup), o.cols - col));
      codes = source.Codes(row, col, n);
    }
    if (o.out != nullptr && row < o.padded_rows && col < o.padded_cols) {
      *reinterpret_cast<uint4*>(o.out + row * o.ld + col) = codes;
    }
    if (o.transposed != nullptr) {
      const uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        tile[(local_col + i) * kTileStride + local_row] =
            static_cast<uint8_t>(w[i / 4] >> (8 * (i % 4)));
      }
    }
  }
  if (o.transposed == nullptr) return;
  __syncthreads();
#pragma unroll
  for (int pass = 0; pass < 2; ++pass) {
    const int local = threadIdx.x / 8 + pass * 32;
    const int chunk = (threadIdx.x % 8) * kGroup;
    const int64_t col = col0 + local;
    const int64_t row = row0 + chunk;
    if (col >= o.padded_cols || row >= o.padded_rows) continue;
    const auto* words = reinterpret_cast<const uint32_t*>(tile + local * kTileStride + chunk);
    *reinterpret_cast<uint4*>(o.transposed + col * o.ld_transposed + row) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Describes the outputs of a (rows, cols) source; either view may be empty.
inline TileOutputs MakeTileOutputs(const Tensor& out, const Tensor& transposed, int64_t rows,
                                   int64_t cols) {
  TileOutputs o;
  o.rows = rows;
  o.cols = cols;
  o.padded_rows = RoundUp(rows, kGroup);
  o.padded_cols = RoundUp(cols, kGroup);
  o.out = out.as<uint8_t>();
  o.ld = out.ld;
  o.transposed = transposed.as<uint8_t>();
  o.ld_transposed = transposed.ld;
  Check(out.empty() || o.ld >= o.padded_cols, "FP8 output: ld is not padded to 16");
  Check(transposed.empty() || o.ld_transposed >= o.padded_rows,
        "FP8 transposed output: ld is not padded to 16");
  return o;
}

template <typename Source>
void LaunchQuantizeTile(const Source& source, const TileOutputs& o, cudaStream_t stream) {
  if (o.rows == 0 || o.cols == 0) return;
  const dim3 grid(static_cast<unsigned>(CeilDiv(o.cols, kTileCols)),
                  static_cast<unsigned>(CeilDiv(o.rows, kTileRows)));
  QuantizeTileKernel<<<grid, kTileThreads, 0, stream>>>(source, o);
}

}  // namespace coat
