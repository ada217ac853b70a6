#include "worker/ops/create_cuda.h"

#include "configs/base/error.h"

namespace coat {

std::unique_ptr<Ops> CreateCudaOps(const std::string& device, int /*threads*/) {
  throw Error(Code::kFailedPrecondition,
              "device \"" + device + "\": this build has no CUDA backend; build the preset " +
                  "engine-cuda or release with nvcc on PATH, or use device cpu");
}

}  // namespace coat
