#include "worker/ops/workspace.h"

#include <algorithm>

#include "configs/base/units.h"
#include "worker/ops/cpu/scratch.h"
#include "worker/ops/cuda/adamw_table.h"

namespace coat {
namespace {

int64_t CpuWorkspaceBytes(const WorkspaceShape& shape) {
  const int64_t floats = std::max({GemmScratchFloats(), NormPartialFloats(shape.hidden),
                                   AttentionScratchFloats(shape.attention)});
  return floats * ElementBytes(DType::kF32);
}

// cuBLASLt's budget and the optimizer's table have places of their own; everything else is used by
// one operator at a time, in the order of the stream.
int64_t CudaWorkspaceBytes(const WorkspaceShape& shape) {
  constexpr int64_t kLibraryBytes = 64 * kMiB;
  constexpr int64_t kTableBytes = kMiB;
  constexpr int64_t kReductionBlocks = 1056;  // partial sums of one launch
  const AttentionShape& attention = shape.attention;
  const int64_t width = attention.heads * attention.head_size;
  // Backward of the attention: dq in FP32, the row sums of dout o, and for grouped heads dk and dv
  // of every query head in BF16.
  const int64_t padded_seq = RoundUp(attention.seq, 128);
  const int64_t dq = padded_seq * attention.batch * width * 4;
  const int64_t row_sums = padded_seq * attention.batch * attention.heads * 4;
  const int64_t expanded =
      attention.heads == attention.kv_heads ? 0 : 2 * attention.tokens() * width * 2;
  const int64_t norm = kReductionBlocks * shape.hidden * 4;
  const int64_t embedding = CeilDiv(attention.tokens(), 64) * 2 * shape.hidden * 4;
  const int64_t update = AdamWScratchBytes(shape.parameters / kAdamWChunkElements + shape.tensors);
  const int64_t scratch = std::max({dq + 2 * row_sums + expanded + kMiB, norm, embedding, update});
  return kLibraryBytes + kTableBytes + RoundUp(scratch, 256);
}

}  // namespace

int64_t WorkspaceBytes(DeviceType device, const WorkspaceShape& shape) {
  return device == DeviceType::kCpu ? CpuWorkspaceBytes(shape) : CudaWorkspaceBytes(shape);
}

}  // namespace coat
