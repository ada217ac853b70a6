// Collectives of GPU ranks. CMake links exactly one definition: nccl.cc when the build has CUDA and
// NCCL, else nccl_none.cc, which refuses.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/collectives/collectives.h"

namespace coat {

enum class Alone : uint8_t {
  kNoDetour,     // a world of one gets `control` itself back
  kThroughNccl,  // it goes through NCCL like any other, for tests and measurements
};

// AllReduceSum and Broadcast run on `stream` (a cudaStream_t) in device memory, in order with the
// operators; host values (AllGather, Barrier, tensors in host memory) travel over `control`, which
// also carries NCCL's id. F32 and I32 are summed as the contract says; BF16 is rounded once per
// hop, so with more than two ranks not once. Error(kCollective) as in collectives.h;
// Error(kFailedPrecondition) without NCCL.
std::unique_ptr<Collectives> CreateNcclCollectives(std::unique_ptr<Collectives> control,
                                                   void* stream, Alone alone = Alone::kNoDetour);

}  // namespace coat
