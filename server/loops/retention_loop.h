// The thread that deletes finished jobs beyond the retention.
#pragma once

#include "server/loops/coordinator.h"
#include "server/loops/loop.h"

namespace coat {

class RetentionLoop {
 public:
  explicit RetentionLoop(Coordinator* coordinator)
      : loop_({60'000, 0}, [coordinator] { coordinator->Retire(); }) {}

 private:
  Loop loop_;
};

}  // namespace coat
