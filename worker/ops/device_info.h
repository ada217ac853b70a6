// The GPUs of this host. CMake links exactly one definition: ops/cuda when the build has a CUDA
// compiler, else ops/no_cuda.
#pragma once

#include "configs/base/status.h"

namespace coat {

// How many GPUs "cuda:0", "cuda:1", ... name; at least one. Makes no context on them.
// kFailedPrecondition saying why there is none: not compiled in, no driver, no device.
Result<int> CountCudaDevices();

}  // namespace coat
