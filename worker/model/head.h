// Final norm, output head and loss: BF16 and FP32 in every recipe (NUMERICS 3). Logits exist for
// `loss_rows` tokens at a time; each chunk yields loss, dlogits, dW and dx in one sweep.
#pragma once

#include "worker/memory/arena.h"
#include "worker/model/block.h"
#include "worker/model/shape.h"
#include "worker/ops/ops.h"

namespace coat {

class Head {
 public:
  explicit Head(BlockShared* shared);

  // `residual`: of the last block, its last branch still in shared.branch. Adds to nll.
  void Evaluate(const Tensor& residual, const Tensor& targets, const Tensor& inverse_count);
  // The same, writes shared.dresidual and adds to the gradients of head and final norm.
  void Train(const Tensor& residual, const Tensor& targets, const Tensor& inverse_count);

 private:
  void FinalNorm(const Tensor& residual);
  // Logits and loss of rows [first, first + rows); `dlogits` replaces the logits if asked for.
  void Chunk(int64_t first, int64_t rows, const Tensor& targets, const Tensor& inverse_count,
             bool gradient);
  void ChunkBackward(int64_t first, int64_t rows);

  BlockShared& shared_;
  Ops& ops_;
  Tensor x_, rstd_;           // BF16 (N, d), F32 (N)
  Tensor norm_, dnorm_;       // BF16 (loss_rows, d)
  Tensor logits_, nll_rows_;  // BF16 (loss_rows, V), F32 (loss_rows)
  Tensor nll_;                // F32 (1)
};

}  // namespace coat
