// The thread that moves what time alone moves: leases, limits, stalls, long polls.
#pragma once

#include "server/loops/coordinator.h"
#include "server/loops/loop.h"

namespace coat {

class LeaseLoop {
 public:
  explicit LeaseLoop(Coordinator* coordinator)
      : loop_({100, 0}, [coordinator] { coordinator->Tick(); }) {}

 private:
  Loop loop_;
};

}  // namespace coat
