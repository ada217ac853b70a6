// Loops over parts of rows that the operators of the CPU backend share: loads to FP32, stores,
// 1x16 groups, maxima, sums in a fixed order, and the writer of GEMM operands.
#pragma once

#include <algorithm>
#include <cstdint>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/thread_pool.h"
#include "worker/ops/ops.h"
#include "worker/precision/fp8.h"
#include "worker/precision/fused.h"

namespace coat {

inline constexpr int64_t kGroup = 16;     // elements of a group, lanes of a sum
inline constexpr int64_t kTile = 256;     // elements handled at once, on the stack
inline constexpr int64_t kRowGrain = 64;  // rows of a ParallelFor chunk

template <typename T>
T* At(const Tensor& x, int64_t row, int64_t col) {
  return x.as<T>() + row * x.ld + col;
}

// n elements of a BF16 or F32 matrix from (row, col) on, as FP32.
inline void LoadTile(const Tensor& x, int64_t row, int64_t col, int64_t n, float* out) {
  if (x.dtype == DType::kF32) {
    std::copy_n(At<float>(x, row, col), n, out);
    return;
  }
  const uint16_t* in = At<uint16_t>(x, row, col);
  for (int64_t i = 0; i < n; ++i) out[i] = FloatFromBf16(in[i]);
}

inline void StoreBf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Bf16FromFloat(x[i]);
}

// BF16 or F32.
inline void StoreTile(const float* x, int64_t n, const Tensor& out, int64_t row, int64_t col) {
  if (out.dtype == DType::kF32) {
    std::copy_n(x, n, At<float>(out, row, col));
  } else {
    StoreBf16(x, n, At<uint16_t>(out, row, col));
  }
}

// Larger of `start` and the magnitude bits of x.
inline uint32_t MaxMagnitude(const float* x, int64_t n, uint32_t start) {
  uint32_t largest = start;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = MagnitudeBits(x[i]);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// Largest value, at least `start`. NaN is larger than nothing: it is for the exponentials to show.
inline float MaxValue(const float* x, int64_t n, float start) {
  float lanes[kGroup];
  std::fill_n(lanes, kGroup, start);
  int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    for (int j = 0; j < kGroup; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  for (int j = 0; i + j < n; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  return *std::max_element(lanes, lanes + kGroup);
}

// One group of 16 values: codes and scale; x becomes the dequantized values.
inline uint16_t QuantizeGroup(float* x, uint8_t* codes) {
  const uint16_t scale = GroupScale(BitsFloat(MaxMagnitude(x, kGroup, 0)));
  const float factor = FloatFromBf16(scale);
  const float inverse = InverseScale(factor);
  uint32_t wide[kGroup];  // as wide as x, so that the loop vectorizes well
  for (int i = 0; i < kGroup; ++i) {
    wide[i] = Fp8Encode<E4M3>(x[i] * inverse);
    x[i] = Dequantize(Fp8Decode<E4M3>(static_cast<uint8_t>(wide[i])), factor);
  }
  for (int i = 0; i < kGroup; ++i) codes[i] = static_cast<uint8_t>(wide[i]);
  return scale;
}

// Quantizes n values of a segment from its column `col` (a multiple of 16) on; x becomes the
// dequantized values. `codes` and `scales` point at the first of them.
inline void QuantizeGroups(float* x, int64_t n, uint8_t* codes, uint16_t* scales) {
  int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) scales[i / kGroup] = QuantizeGroup(x + i, codes + i);
  if (i == n) return;
  float values[kGroup] = {};
  uint8_t group[kGroup];
  std::copy_n(x + i, n - i, values);
  scales[i / kGroup] = QuantizeGroup(values, group);
  std::copy_n(values, n - i, x + i);
  std::copy_n(group, n - i, codes + i);
}

// Where column `col` of segment `segment` keeps its group scale.
inline uint16_t* ScaleAt(const GroupQuantized& q8, int64_t row, int segment, int64_t col) {
  const int64_t groups = GroupsPerRow(q8.codes.cols(), q8.segments);
  const int64_t first = row * groups + segment * (groups / q8.segments);
  return q8.scales.as<uint16_t>() + first + col / kGroup;
}

// n values of segment `segment` of an activation from its column `col` on (a multiple of 16).
inline void LoadActivation(const Activation& x, int64_t row, int segment, int64_t segment_cols,
                           int64_t col, int64_t n, float* out) {
  const int64_t first = segment * segment_cols + col;
  if (x.q8.empty()) {
    LoadTile(x.bf16, row, first, n, out);
    return;
  }
  const uint8_t* codes = At<uint8_t>(x.q8.codes, row, first);
  const uint16_t* scales = ScaleAt(x.q8, row, segment, col);
  for (int64_t i = 0; i < n; i += kGroup) {
    const float scale = FloatFromBf16(scales[i / kGroup]);
    const int64_t end = std::min(i + kGroup, n);
    for (int64_t j = i; j < end; ++j) out[j] = Dequantize(Fp8Decode<E4M3>(codes[j]), scale);
  }
}

// Sixteen running sums; element i of a row goes to lane i mod 16 when every Add but the last is a
// multiple of 16 long. The order of additions depends on nothing but the length.
class LaneSum {
 public:
  void Add(const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + kGroup <= n; i += kGroup) {
      for (int j = 0; j < kGroup; ++j) lanes_[j] += x[i + j];
    }
    for (int j = 0; i + j < n; ++j) lanes_[j] += x[i + j];
  }
  void AddProducts(const float* x, const float* y, int64_t n) {
    int64_t i = 0;
    for (; i + kGroup <= n; i += kGroup) {
      for (int j = 0; j < kGroup; ++j) lanes_[j] += x[i + j] * y[i + j];
    }
    for (int j = 0; i + j < n; ++j) lanes_[j] += x[i + j] * y[i + j];
  }
  float Total() const {
    float sum[kGroup];
    std::copy_n(lanes_, kGroup, sum);
    for (int width = kGroup / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) sum[j] += sum[j + width];
    }
    return sum[0];
  }

 private:
  float lanes_[kGroup] = {};
};

// Calls fn(col, n) for consecutive tiles of a row.
template <typename Fn>
void ForTiles(int64_t cols, const Fn& fn) {
  for (int64_t col = 0; col < cols; col += kTile) fn(col, std::min(kTile, cols - col));
}

// Writes an FP8 matrix in one or both layouts (either may be empty), padding columns included.
// fill(row, col, n, codes) makes the codes of n elements of a row.
template <typename Fill>
void WriteCodes(int64_t rows, int64_t cols, const Tensor& out, const Tensor& transposed,
                ThreadPool& pool, const Fill& fill) {
  constexpr int64_t kRows = 32;
  pool.ParallelFor(rows, kRows, [&](int64_t begin, int64_t end) {
    uint8_t tile[kRows][kTile];
    const int64_t height = end - begin;
    const int64_t last = transposed.empty() || end < rows ? height : transposed.ld - begin;
    ForTiles(cols, [&](int64_t col, int64_t n) {
      for (int64_t r = 0; r < height; ++r) {
        fill(begin + r, col, n, tile[r]);
        if (!out.empty()) std::copy_n(tile[r], n, At<uint8_t>(out, begin + r, col));
      }
      if (transposed.empty()) return;
      for (int64_t c = 0; c < n; ++c) {
        uint8_t* to = At<uint8_t>(transposed, col + c, begin);
        for (int64_t r = 0; r < height; ++r) to[r] = tile[r][c];
        std::fill(to + height, to + last, uint8_t{0});
      }
    });
    if (out.empty()) return;
    for (int64_t row = begin; row < end; ++row) {
      std::fill(At<uint8_t>(out, row, cols), At<uint8_t>(out, row, out.ld), uint8_t{0});
    }
  });
}

// The same for an output that is BF16 or codes with a scale: fill(row, col, n, values) makes FP32.
template <typename Fill>
void WriteOperand(int64_t rows, int64_t cols, const Tensor& scale, const Tensor& out,
                  const Tensor& transposed, ThreadPool& pool, const Fill& fill) {
  if (!scale.empty()) {
    const float inverse = InverseScale(*scale.as<float>());
    WriteCodes(rows, cols, out, transposed, pool,
               [&](int64_t row, int64_t col, int64_t n, uint8_t* codes) {
                 float values[kTile];
                 fill(row, col, n, values);
                 for (int64_t i = 0; i < n; ++i) codes[i] = Fp8Encode<E4M3>(values[i] * inverse);
               });
    return;
  }
  pool.ParallelFor(rows, kRowGrain, [&](int64_t begin, int64_t end) {
    float values[kTile];
    for (int64_t row = begin; row < end; ++row) {
      ForTiles(cols, [&](int64_t col, int64_t n) {
        fill(row, col, n, values);
        StoreTile(values, n, out, row, col);
      });
    }
  });
}

}  // namespace coat
