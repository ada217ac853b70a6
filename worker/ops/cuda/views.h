// From tensor views to what kernels take; launch sizes that the workspace formula shares.
#pragma once

#include <algorithm>

#include "worker/ops/check_args.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/ops/ops.h"

namespace coat {

inline DeviceActivation MakeActivation(const Activation& x) {
  DeviceActivation view;
  if (x.q8.empty()) {
    view.bf16 = x.bf16.as<uint16_t>();
    view.cols = x.bf16.cols();
  } else {
    view.codes = x.q8.codes.as<uint8_t>();
    view.scales = x.q8.scales.as<uint16_t>();
    view.cols = x.q8.codes.cols();
    view.scale_cols = GroupsPerRow(view.cols, x.q8.segments);
  }
  view.whole = view.cols % kGroup == 0;
  return view;
}

// Rows of whole groups at multiples of 16 elements (group.cuh).
inline bool HasWholeGroups(const Tensor& x) { return x.ld % kGroup == 0 && x.cols() % kGroup == 0; }

inline int64_t ActivationRows(const Activation& x) {
  return x.q8.empty() ? x.bf16.rows() : x.q8.codes.rows();
}

// Blocks of the norm backward: enough rows in flight, and one partial gain gradient each.
inline int64_t NormBackwardBlocks(int64_t cols) { return cols <= 4096 ? 1056 : 528; }

inline constexpr int kEmbeddingChunk = 64;  // sorted positions a block sums

// Blocks that share a pass over all gradients, and one partial sum each.
inline constexpr int kNormBlocks = 1024;

}  // namespace coat
