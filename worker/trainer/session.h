// Everything a rank trains with, built once; the loop only reads the story.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/base/status.h"
#include "worker/collectives/collectives.h"
#include "worker/data/loader.h"
#include "worker/memory/arena.h"
#include "worker/memory/plan.h"
#include "worker/model/model.h"
#include "worker/ops/ops.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/batch_feeder.h"

namespace coat {

// What a checkpoint holds besides tensors.
struct TrainState {
  int64_t step = 0;           // steps done, skipped ones included
  int32_t applied_steps = 0;  // t of the bias correction
  DataPosition position;      // of the next step's first sequence
  int64_t tokens_total = 0;
  int64_t skipped_total = 0;
  bool finite = true;  // the last loss was finite
};

// Thread-compatible. Members are declared in the order of what they need.
struct Session {
  coatrack::v1::RankLaunch launch;
  coatrack::v1::JobSpec spec;
  MemoryPlan plan;
  std::array<int64_t, kMemoryKinds> planned_bf16{};  // of the same job with recipe bf16
  std::optional<double> peak_flops;                  // of the device; nothing on CPUs
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<BatchFeeder> feeder;
  std::unique_ptr<Collectives> collectives;
  TrainState state;
  // Steps that are queued before the results of an earlier one are read: 1 on a GPU, which then
  // always has work; 0 where operators are complete on return. The same on all ranks.
  int64_t steps_ahead = 0;
  // Checkpoint directories that must not be deleted, asked for before each deletion.
  std::function<std::vector<std::string>()> pinned = [] { return std::vector<std::string>(); };

  int rank() const { return launch.rank(); }
  int world_size() const { return launch.world_size(); }
  int64_t microbatches_per_rank() const {
    return spec.train().global_batch() / (spec.train().micro_batch() * world_size());
  }
};

// Collectives over host memory. A GPU's tensors then travel by NCCL, which they set up.
using ConnectFunction = std::function<std::unique_ptr<Collectives>()>;

// Device, plan, arena, data, model, optimizer; then `connect`, so that a rank that cannot load
// fails before its peers wait for it; then the start: resume_dir, init_dir or the seed.
// Ranks compare their data sets: Error(kDataChanged) when they differ. Errors of all parts.
std::unique_ptr<Session> BuildSession(const coatrack::v1::RankLaunch& launch,
                                      const coatrack::v1::JobSpec& spec,
                                      const ConnectFunction& connect);

// Error(code) naming the ranks when `hash` (hex, at least 64 digits) differs between ranks.
void CompareOverRanks(Collectives* collectives, const std::string& hash, Code code,
                      const std::string& what);

}  // namespace coat
