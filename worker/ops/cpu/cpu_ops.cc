#include "worker/ops/cpu/cpu_ops.h"

#include <cblas.h>

#include <string>

#include "configs/base/error.h"
#include "worker/ops/cpu/adamw.h"
#include "worker/ops/cpu/grad_norm.h"

namespace coat {

CpuOps::CpuOps(int threads) : pool_(threads) { openblas_set_num_threads(threads); }

void CpuOps::SetWorkspace(const Tensor& workspace) {
  Check(!workspace.empty(), "SetWorkspace: the workspace is empty");
  workspace_ = workspace;
}

void CpuOps::GradNorm(const GradNormArgs& args) { CpuGradNorm(args, pool_); }

void CpuOps::AdamW(const AdamWArgs& args) { CpuAdamW(args, pool_); }

float* CpuOps::Scratch(int64_t floats, const char* op) const {
  const int64_t bytes = floats * ElementBytes(DType::kF32);
  Check(workspace_.bytes() >= bytes,
        std::string(op) + ": needs a workspace of " + std::to_string(bytes) + " bytes, has " +
            std::to_string(workspace_.bytes()) + "; size it by WorkspaceBytes");
  return workspace_.as<float>();
}

}  // namespace coat
