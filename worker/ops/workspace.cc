#include "worker/ops/workspace.h"

#include <algorithm>

#include "configs/base/units.h"
#include "worker/ops/cpu/scratch.h"

namespace coat {
namespace {

int64_t CpuWorkspaceBytes(const WorkspaceShape& shape) {
  const int64_t floats = std::max({GemmScratchFloats(), NormPartialFloats(shape.hidden),
                                   AttentionScratchFloats(shape.attention)});
  return floats * ElementBytes(DType::kF32);
}

// cuBLASLt's budget, attention and reductions never run at the same time, but they may be in
// flight on the same stream in any order, so each has its own place.
int64_t CudaWorkspaceBytes(const WorkspaceShape& shape) {
  constexpr int64_t kLibraryBytes = 64 * kMiB;
  constexpr int64_t kReductionBlocks = 1024;  // partial sums of one launch
  const AttentionShape& attention = shape.attention;
  const int64_t width = attention.heads * attention.head_size;
  // Backward of the attention: dq in FP32, the row sums of dout o, and for grouped heads dk and dv
  // of every query head in BF16.
  const int64_t dq = attention.tokens() * width * 4;
  const int64_t row_sums = RoundUp(attention.seq, 128) * attention.batch * attention.heads * 4;
  const int64_t expanded =
      attention.heads == attention.kv_heads ? 0 : 2 * attention.tokens() * width * 2;
  const int64_t norm = kReductionBlocks * shape.hidden * 4;
  const int64_t reductions = (kReductionBlocks + shape.tensors) * 4;
  int64_t bytes = kLibraryBytes;
  for (int64_t part : {dq, row_sums, expanded, norm, reductions}) bytes += RoundUp(part, 256);
  return bytes;
}

}  // namespace

int64_t WorkspaceBytes(DeviceType device, const WorkspaceShape& shape) {
  return device == DeviceType::kCpu ? CpuWorkspaceBytes(shape) : CudaWorkspaceBytes(shape);
}

}  // namespace coat
