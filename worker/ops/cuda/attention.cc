#include "worker/ops/check_args.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace coat {

void CudaOps::Attention(const AttentionArgs& args) {
  CheckArgs(args);
  if (!attention_->Forward(args)) SimpleAttention(args);
}

void CudaOps::AttentionBackward(const AttentionBackwardArgs& args) {
  CheckArgs(args);
  if (!attention_->Backward(args)) SimpleAttentionBackward(args);
}

}  // namespace coat
