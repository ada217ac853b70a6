// AdamW with compressed moments (NUMERICS 5), learning-rate schedules, clipping.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/model/model.h"
#include "worker/ops/ops.h"
#include "worker/optim/moment_health.h"

namespace coat {

class Arena;

// Learning rate of 1-based step s of S = `steps`; defaults are applied. With W = warmup_steps:
//   s <= W    lr s / W
//   cosine    min_lr + (lr - min_lr) (1 + cos(pi (s - W) / (S - W))) / 2
//   linear    lr + (min_lr - lr) (s - W) / (S - W)
//   wsd       lr, then linear to min_lr over the last D = min(decay_steps, S - W) steps
//   constant  lr
// So all but `constant` end at min_lr in the last step. Steps beyond S keep its value.
double LearningRate(const coatrack::v1::OptimizerSpec& spec, int64_t step, int64_t steps);

// What a checkpoint stores besides the weights, under the names of layout.h:
// "<parameter>.m.values", ".m.amax", ".m.k16", ".v. ...".
struct StateTensor {
  std::string name;
  Tensor tensor;
};

struct KHistogram {             // of k, over groups that hold a non-zero value
  std::vector<double> bounds;   // upper bounds (inclusive) of k: 1/16, 1/8, ..., 64
  std::vector<int64_t> counts;  // bounds.size() + 1
};

// Thread-compatible. Memory is the arena's; its tensors are at zero until the first Step or load.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Norm, finite flag, clip factor from the (already reduced) gradients, then the update; all on
  // the device. `step` is 1-based and chooses the learning rate. `nonfinite` I32 (1) and
  // `inverse_count` F32 (1) as in GradNormArgs. Writes Parameter::copy and amax as well.
  virtual void Step(int64_t step, const Tensor& nonfinite, const Tensor& inverse_count) = 0;
  virtual StepState ReadState() = 0;  // synchronizes
  // Without waiting, in order with the operators; `host` as Ops::HostBuffer says.
  virtual void CopyState(StepState* host) = 0;
  virtual void SetAppliedSteps(int32_t t) = 0;  // after a load; synchronizes
  virtual std::vector<StateTensor> StateTensors() = 0;
  // Synchronizes; empty unless fp8_dre.
  virtual KHistogram ExpansionK(bool second_moment) = 0;
  // While on, an applied Step samples the FP8 health of the moments (moment_health.h) and then
  // synchronizes.
  virtual void SetTelemetry(bool on) = 0;
  // Of the last applied Step under telemetry; all zero unless the moments are FP8.
  virtual MomentHealth moment_health() const = 0;
  virtual std::string StateName() const = 0;  // what really runs: "fp8_dre e4m3/e4m3"
};

// All tensors the optimizer needs are in the arena under StateTensor names (declared by
// optim/layout.h, which memory/plan calls). Sets a, k and scales of all groups to those of zeros.
// `spec` has defaults applied. Errors: Error(kInvalidArgument) naming the field.
std::unique_ptr<Optimizer> CreateOptimizer(const coatrack::v1::JobSpec& spec, Model* model,
                                           Ops* ops, Arena* arena);

}  // namespace coat
