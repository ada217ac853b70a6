// Stands in for gloo.cc where Gloo is not installed.
#include "configs/base/error.h"
#include "worker/collectives/single.h"

namespace coat {

std::unique_ptr<Collectives> CreateGlooCollectives(const CollectiveOptions& options,
                                                   RendezvousStore*) {
  CheckRank(options.rank, options.world_size);
  if (options.world_size == 1) return CreateSingleRankCollectives();
  throw Error(Code::kFailedPrecondition,
              "this program was built without Gloo, so a job on CPUs can have one rank only; "
              "install libgloo-dev and build again, or set resources.ranks to 1");
}

}  // namespace coat
