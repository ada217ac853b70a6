#include "configs/base/error.h"
#include "worker/memory/plan.h"

namespace coat {

const char* MemoryKindName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kWeights: return "weights";
    case MemoryKind::kMaster: return "master";
    case MemoryKind::kGradients: return "gradients";
    case MemoryKind::kOptimizer: return "optimizer";
    case MemoryKind::kActivations: return "activations";
    case MemoryKind::kWorkspace: return "workspace";
    case MemoryKind::kCommunication: return "communication";
  }
  throw Error(Code::kInternal, "MemoryKindName: unknown kind");
}

}  // namespace coat
