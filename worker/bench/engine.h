// One rank's engine for measurements: what a trainer builds, without files, records or checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/data/loader.h"
#include "worker/memory/arena.h"
#include "worker/memory/plan.h"
#include "worker/model/model.h"
#include "worker/ops/ops.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/batch_feeder.h"

namespace coat {

struct BenchDevice {
  std::string name = "cpu";  // as CreateOps takes it
  int threads = 1;
};

// A job on a preset with one rank, no defaults applied. `micro_batch` sequences a microbatch,
// `accumulation` microbatches a step.
struct BenchShape {
  std::string preset = "llama-tiny";
  int64_t micro_batch = 2;
  int64_t accumulation = 1;
  int64_t sequence_length = 128;
};
coatrack::v1::JobSpec BenchJob(const BenchShape& shape, int64_t steps);
// The same with a format for random tokens and fields of the job set ("precision.recipe=bf16"), by
// SetAssignment. Error(kInvalidArgument) naming a field that does not exist.
coatrack::v1::JobSpec BenchTokenJob(const BenchShape& shape, int64_t steps,
                                    const std::vector<std::string>& settings = {});

// Applies defaults and validates. Error(kInvalidArgument) with one fault a line.
coatrack::v1::JobSpec CompleteJob(coatrack::v1::JobSpec spec);

// Uniform token ids below `vocab`; sequence i of epoch e is the same in every run.
std::unique_ptr<Dataset> RandomTokens(int64_t vocab, int64_t sequence_length);

// Thread-compatible. `spec` has defaults applied.
class BenchEngine {
 public:
  using WrapOps = std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops>)>;

  // `wrap`, if any, decorates the operators of everything below.
  BenchEngine(const coatrack::v1::JobSpec& spec, const BenchDevice& device,
              std::unique_ptr<Dataset> dataset, const WrapOps& wrap = nullptr);

  struct StepResult {
    double seconds = 0;  // from the batch on the host to the updated weights and the next batch
    double loss = 0;     // mean nll a token
    StepState update;
  };
  // The next step's batch is made while the device works on this one.
  StepResult Step();
  // `count` steps as a GPU's trainer queues them: each before the results of the one before it are
  // read. `seconds` is the device's time since the end of the step before.
  std::vector<StepResult> Steps(int64_t count);

  const coatrack::v1::JobSpec& spec() const { return spec_; }
  const MemoryPlan& plan() const { return plan_; }
  Arena& arena() { return *arena_; }
  Ops& ops() { return *ops_; }
  Model& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  void PrepareNext();
  void QueueStep();

  const coatrack::v1::JobSpec spec_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Ops> ops_;
  MemoryPlan plan_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<BatchFeeder> feeder_;
  DataPosition position_;
  PreparedStep now_, next_;  // what the device works on, and what comes then
  int64_t step_ = 0;
};

}  // namespace coat
