#include "configs/base/error.h"
#include "worker/collectives/nccl.h"

namespace coat {

std::unique_ptr<Collectives> CreateNcclCollectives(std::unique_ptr<Collectives> control, void*,
                                                   Alone alone) {
  if (control->world_size() == 1 && alone == Alone::kNoDetour) return control;
  throw Error(Code::kFailedPrecondition,
              "this program was built without NCCL; GPU jobs of more than one rank need it");
}

}  // namespace coat
