// Attention by cuDNN, a graph per shape and mode, built at first use.
#pragma once

#include <memory>

#include "worker/ops/cuda/context.h"

namespace coat {

// Each returns false when cuDNN has no engine for the shape within the scratch the plan gave: the
// caller takes the plain kernels.
class AttentionPlans {
 public:
  virtual ~AttentionPlans() = default;
  virtual bool Forward(const AttentionArgs& args) = 0;
  virtual bool Backward(const AttentionBackwardArgs& args) = 0;
};

// With cudnn-frontend's headers the real one, else one that always answers false.
std::unique_ptr<AttentionPlans> CreateAttentionPlans(const CudaContext* context);

}  // namespace coat
