// The seam between CreateOps and the CUDA backend. CMake links exactly one definition: ops/cuda
// when the build has a CUDA compiler, else ops/no_cuda, which refuses.
#pragma once

#include <memory>
#include <string>

#include "worker/ops/ops.h"

namespace coat {

// Arguments and errors of CreateOps for a device that starts with "cuda:".
std::unique_ptr<Ops> CreateCudaOps(const std::string& device, int threads);

}  // namespace coat
