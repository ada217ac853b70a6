// Bytes of operator scratch, by formula, so that the plan needs no device (pure).
#pragma once

#include <cstdint>

#include "worker/ops/ops.h"

namespace coat {

// The largest problem a step poses to the operators.
struct WorkspaceShape {
  AttentionShape attention;
  int64_t hidden = 0, intermediate = 0, vocab = 0;
  int64_t loss_rows = 0;   // rows of logits at a time
  int64_t parameters = 0;  // elements of all stored tensors
  int64_t tensors = 0;     // number of stored tensors
  bool deterministic = true;
};

// What SetWorkspace must be given on that device: CPU: decoded GEMM operands and per-thread sums;
// CUDA: 64 MiB for cuBLASLt, attention by formula, reduction partials, sums of the update.
int64_t WorkspaceBytes(DeviceType device, const WorkspaceShape& shape);

}  // namespace coat
