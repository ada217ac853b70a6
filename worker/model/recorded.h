// A model whose work is recorded once and replayed: a GPU then gets a microbatch in one call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/model.h"
#include "worker/ops/ops.h"

namespace coat {

// Does what `inner` does, bit by bit. A call that always queues the same operators on the same
// memory runs as it is the first time (when the operators make their plans), is recorded at the
// second (Ops::Record) and replayed from then on. That holds for ResetStep, WeightsUpdated,
// EvaluateMicrobatch and each of the two kinds of TrainMicrobatch (first_of_step or not) as long as
// they get the batch buffers they were recorded with; other buffers, and microbatches that are
// sampled for telemetry or whose gradients are watched, run as they are. Where the device cannot
// record, all calls run as they are and stderr gets one line that says why. Thread-compatible; the
// operators outlive it.
class RecordedModel final : public Model {
 public:
  RecordedModel(std::unique_ptr<Model> inner, Ops* ops);

  const std::vector<Parameter>& parameters() const override { return inner_->parameters(); }
  void Initialize(uint64_t seed) override { inner_->Initialize(seed); }
  void WeightsChanged() override { inner_->WeightsChanged(); }
  void WeightsUpdated() override;
  void TrainMicrobatch(const Batch& batch, const Tensor& inverse_count,
                       bool first_of_step) override;
  void WatchGradients(GradientsReady ready) override;
  void EvaluateMicrobatch(const Batch& batch) override;
  Tensor nll() const override { return inner_->nll(); }
  Tensor nonfinite() const override { return inner_->nonfinite(); }
  void ResetStep() override;
  void SetTelemetry(bool on) override;
  Tensor health(Operand operand) const override { return inner_->health(operand); }

  bool recording() const { return recording_; }  // false: the device could not
  int64_t replays() const { return replays_; }   // calls that were replayed
  // Recorded operations of the device (kernels, copies, fills) of the last replay.
  int64_t operations() const { return operations_; }

 private:
  enum class Call { kReset, kTrainFirst, kTrainMore, kEvaluate, kUpdated };
  struct Variant {
    bool ran = false;
    std::vector<const void*> buffers;
    std::unique_ptr<Recording> recording;
  };

  void Run(Call call, const std::vector<const void*>& buffers, const std::function<void()>& body);

  const std::unique_ptr<Model> inner_;
  Ops* const ops_;
  std::map<Call, Variant> variants_;
  bool telemetry_ = false, watched_ = false;
  bool recording_ = true;
  int64_t replays_ = 0, operations_ = 0;
};

}  // namespace coat
