// Sizes of the CPU backend's scratch, in FP32 numbers: what the operators carve from the
// workspace and what WorkspaceBytes adds up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "configs/base/units.h"
#include "worker/ops/ops.h"

namespace coat {

// Gemm works on blocks: operands decoded to FP32 and the unscaled product.
inline constexpr int64_t kGemmOuterBlock = 512;
inline constexpr int64_t kGemmDepthBlock = 1024;

constexpr int64_t GemmScratchFloats() {
  return 2 * kGemmOuterBlock * kGemmDepthBlock + kGemmOuterBlock * kGemmOuterBlock;
}

// NormBackward sums gain gradients in at most this many chunks of rows, then the chunks.
inline constexpr int64_t kNormPartials = 64;

constexpr int64_t NormPartialFloats(int64_t hidden) { return kNormPartials * hidden; }

// Attention handles this many query rows of a head at once.
inline constexpr int64_t kQueryRows = 64;

// k, v and their gradients of one head; q, dq, o and dout of the query rows; scores and dscores.
constexpr int64_t AttentionScratchFloats(const AttentionShape& shape) {
  return 4 * shape.seq * shape.head_size + 4 * kQueryRows * shape.head_size +
         2 * kQueryRows * shape.seq;
}

}  // namespace coat
