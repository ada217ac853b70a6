#include "configs/base/error.h"
#include "worker/memory/cuda_memory.h"

namespace coat {

std::unique_ptr<DeviceMemory> ReserveCudaMemory(const std::string& device, int64_t) {
  throw Error(Code::kFailedPrecondition,
              "device " + device + ": this program was built without CUDA; use device cpu");
}

}  // namespace coat
