// One kernel shape for everything that writes FP8 operands of a GEMM: a block makes the codes of
// 128 x 128 elements and writes them along the row, along the column (transposed through shared
// memory), or both.
#pragma once

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cuda/device.cuh"

namespace coat {

inline constexpr int kTileRows = 128;
inline constexpr int kTileGroups = 8;  // of a row of the tile
inline constexpr int kTileCols = kTileGroups * kGroup;
inline constexpr int kTileThreads = 256;
inline constexpr int kTilePassRows = kTileThreads / kTileGroups;

struct TileOutputs {
  uint8_t* out = nullptr;  // (rows, cols), ld
  int64_t ld = 0;
  uint8_t* transposed = nullptr;  // (cols, rows), ld_transposed
  int64_t ld_transposed = 0;
  int64_t rows = 0, cols = 0;
  int64_t padded_rows = 0, padded_cols = 0;  // written with zeros beyond rows and cols
};

// Where a tile keeps a group: moved by the chunk of 16 rows that it is in, so that the words of one
// column quad over all chunks lie in different banks.
__device__ inline int TilePlace(int row, int group) {
  return row * kTileGroups + (group ^ (row / kGroup));
}

// Bytes k of four words, for k = 0 to 3.
__device__ inline void TransposeFour(const uint32_t* rows, uint32_t* columns) {
  const uint32_t a = __byte_perm(rows[0], rows[1], 0x5140);
  const uint32_t b = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t c = __byte_perm(rows[2], rows[3], 0x5140);
  const uint32_t d = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(a, c, 0x5410);
  columns[1] = __byte_perm(a, c, 0x7632);
  columns[2] = __byte_perm(b, d, 0x5410);
  columns[3] = __byte_perm(b, d, 0x7632);
}

// A thread reads four columns of 16 rows and writes 16 bytes to each of four output rows.
__device__ inline void StoreTransposedTile(const uint4* tile, const TileOutputs& o, int64_t row0,
                                           int64_t col0) {
  const int chunk = threadIdx.x % 8;
  const int quad = threadIdx.x / 8;
  const int64_t row = row0 + chunk * kGroup;
  if (row >= o.padded_rows) return;
  uint32_t columns[4][4];  // of each column, four rows a word
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t words[4], four[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int place = TilePlace(chunk * kGroup + 4 * i + j, quad / 4);
      words[j] = reinterpret_cast<const uint32_t*>(tile + place)[quad % 4];
    }
    TransposeFour(words, four);
#pragma unroll
    for (int k = 0; k < 4; ++k) columns[k][i] = four[k];
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int64_t col = col0 + quad * 4 + k;
    if (col >= o.padded_cols) break;
    *reinterpret_cast<uint4*>(o.transposed + col * o.ld_transposed + row) =
        make_uint4(columns[k][0], columns[k][1], columns[k][2], columns[k][3]);
  }
}

// Source: `Prepare<kWhole>(col, n)` once a thread, then `uint4 Codes<kWhole>(row, col, n)` of rows
// below `rows`; n valid elements (1 to 16).
template <bool kWhole, typename Source>
__global__ void __launch_bounds__(kTileThreads) QuantizeTileKernel(Source source, TileOutputs o) {
  __shared__ uint4 tile[kTileRows * kTileGroups];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * kTileCols;
  const int group = threadIdx.x % kTileGroups;
  const int64_t col = col0 + group * kGroup;
  const int n = GroupCount<kWhole>(o.cols - col);
  if (col < o.cols) source.template Prepare<kWhole>(col, n);
#pragma unroll
  for (int pass = 0; pass < kTileRows / kTilePassRows; ++pass) {
    const int local_row = threadIdx.x / kTileGroups + pass * kTilePassRows;
    const int64_t row = row0 + local_row;
    uint4 codes = make_uint4(0, 0, 0, 0);
    if (row < o.rows && col < o.cols) codes = source.template Codes<kWhole>(row, col, n);
    if (o.out != nullptr && row < o.padded_rows && col < o.padded_cols) {
      *reinterpret_cast<uint4*>(o.out + row * o.ld + col) = codes;
    }
    if (o.transposed != nullptr) tile[TilePlace(local_row, group)] = codes;
  }
  if (o.transposed == nullptr) return;
  __syncthreads();
  StoreTransposedTile(tile, o, row0, col0);
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

// `whole`: the source's rows are made of whole groups at multiples of 16 elements.
template <typename Source>
void LaunchQuantizeTile(const Source& source, bool whole, const TileOutputs& o,
                        cudaStream_t stream) {
  if (o.rows == 0 || o.cols == 0) return;
  const dim3 grid(static_cast<unsigned>(CeilDiv(o.cols, kTileCols)),
                  static_cast<unsigned>(CeilDiv(o.rows, kTileRows)));
  if (whole) {
    QuantizeTileKernel<true><<<grid, kTileThreads, 0, stream>>>(source, o);
  } else {
    QuantizeTileKernel<false><<<grid, kTileThreads, 0, stream>>>(source, o);
  }
}

}  // namespace coat
