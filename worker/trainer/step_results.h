// What steps leave on the device for the host: loss, norm and time, read while later steps run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/ops/ops.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/batch_feeder.h"

namespace coat {

struct StepResult {
  int64_t step = 0;
  int64_t sequences = 0;      // of all ranks
  int64_t valid_targets = 0;  // likewise
  float nll = 0;              // sum over the valid targets
  StepState update;
  // Device time since the end of the step before, so that the times of steps add up to the time of
  // a run; since the step's own begin when the device was read out in between.
  double seconds = 0;
};

// First in, first out. Thread-compatible; the operators outlive it.
class StepResults {
 public:
  // Room for `ahead` + 1 steps that are queued and not taken.
  StepResults(Ops* ops, int64_t ahead);

  void Begin();  // before the first operator of a step
  // Behind the last operator of the step that was begun: copies `nll` and the optimizer's state
  // without waiting. The operators of the next step may overwrite both.
  void Queue(int64_t step, const PreparedStep& prepared, const Tensor& nll, Optimizer* optimizer);
  int64_t pending() const { return queued_ - taken_; }
  // The oldest; waits until the device has done that step, whose uploads are then over too.
  StepResult Take();
  // What the host does now takes its time: it is not part of the next step's.
  void Pause() { paused_ = true; }

 private:
  struct Copied {  // by the device
    float nll;
    StepState update;
  };
  struct Slot {
    StepResult result;
    std::shared_ptr<std::byte> memory;  // Copied
    std::unique_ptr<Mark> done;
    const Mark* since = nullptr;
  };
  Slot& SlotOf(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  Ops* ops_;
  // One more than the steps not taken: the end of the step before them is still needed.
  std::vector<Slot> slots_;
  std::unique_ptr<Mark> begin_;
  int64_t queued_ = 0, taken_ = 0;
  bool paused_ = true;
};

}  // namespace coat
