#include "worker/trainer/step_results.h"

#include "configs/base/error.h"

namespace coat {

StepResults::StepResults(Ops* ops, int64_t ahead)
    : ops_(ops), slots_(static_cast<size_t>(ahead + 2)), begin_(ops->CreateMark()) {
  for (Slot& slot : slots_) {
    slot.memory = ops->HostBuffer(sizeof(Copied));
    slot.done = ops->CreateMark();
  }
}

void StepResults::Begin() {
  Slot& slot = SlotOf(queued_);
  if (paused_) {
    Check(pending() == 0, "a step begins after a pause with results not taken");
    begin_->Set();
  }
  slot.since = paused_ ? begin_.get() : SlotOf(queued_ - 1).done.get();
  paused_ = false;
}

void StepResults::Queue(int64_t step, const PreparedStep& prepared, const Tensor& nll,
                        Optimizer* optimizer) {
  Check(pending() + 2 <= static_cast<int64_t>(slots_.size()), "results of steps are not taken");
  Slot& slot = SlotOf(queued_++);
  slot.result.step = step;
  slot.result.sequences = prepared.sequences;
  slot.result.valid_targets = prepared.valid_targets;
  Copied* copied = reinterpret_cast<Copied*>(slot.memory.get());
  ops_->ToHost(nll, &copied->nll);
  optimizer->CopyState(&copied->update);
  slot.done->Set();
}

StepResult StepResults::Take() {
  Check(pending() > 0, "no step is queued");
  Slot& slot = SlotOf(taken_++);
  slot.done->Wait();
  const Copied* copied = reinterpret_cast<const Copied*>(slot.memory.get());
  slot.result.nll = copied->nll;
  slot.result.update = copied->update;
  slot.result.seconds = slot.done->SecondsSince(*slot.since);
  return slot.result;
}

}  // namespace coat
