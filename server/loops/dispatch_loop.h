// The scheduler's thread.
#pragma once

#include "server/loops/coordinator.h"
#include "server/loops/loop.h"

namespace coat {

// Runs a pass when something changed; passes are at least 10 ms apart.
class DispatchLoop {
 public:
  explicit DispatchLoop(Coordinator* coordinator)
      : coordinator_(coordinator), loop_({500, 10}, [coordinator] { coordinator->Dispatch(); }) {
    coordinator_->SetDispatchSignal([this] { loop_.Signal(); });
  }
  ~DispatchLoop() { coordinator_->SetDispatchSignal(nullptr); }

 private:
  Coordinator* coordinator_;
  Loop loop_;
};

}  // namespace coat
