// AdamW with compressed moments (NUMERICS 5), learning-rate schedules, clipping.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/model/model.h"
#include "worker/ops/ops.h"

namespace coat {

class Arena;

// Learning rate of 1-based step `step`; schedules end at min_lr on the last step.
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

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Norm, finite flag, clip factor from the (already reduced) gradients, then the update; all on
  // the device. `step` is 1-based.
  virtual void Step(int64_t step, const Tensor& nonfinite, const Tensor& inverse_count) = 0;
  virtual StepState ReadState() = 0;  // synchronizes
  virtual void SetAppliedSteps(int32_t t) = 0;
  virtual std::vector<StateTensor> StateTensors() = 0;
  virtual KHistogram ExpansionK(bool second_moment) = 0;  // empty unless fp8_dre
  virtual std::string StateName() const = 0;              // what really runs: "fp8_dre e4m3/e4m3"
};

// All tensors the optimizer needs are in the arena under StateTensor names (declared by
// optim/layout.h, which memory/plan calls).
std::unique_ptr<Optimizer> CreateOptimizer(const coatrack::v1::JobSpec& spec, Model* model,
                                           Ops* ops, Arena* arena);

}  // namespace coat
