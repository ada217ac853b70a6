// From the data set to the batch buffers of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/data/loader.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"

namespace coat {

// The sequences of all microbatches of all ranks in one step: microbatch i is sequences
// [i b, (i + 1) b), b = micro_batch, for any number of ranks.
struct StepBatch {
  std::vector<Sample> samples;
  int64_t valid_targets = 0;  // M of NUMERICS 4: of the whole global batch
};

// What one rank trains on in one step, as the device takes it, in memory that a copy to the device
// need not wait for. Once something was uploaded from it, it must stay as it is until the device
// has been synchronized.
struct PreparedStep {
  int64_t sequences = 0;              // of all ranks
  int64_t valid_targets = 0;          // M of NUMERICS 4: of the whole global batch
  DataPosition next;                  // where the step after this one begins
  int64_t microbatches = 0;           // of this rank
  std::shared_ptr<std::byte> memory;  // 1 / M; then of each microbatch tokens, targets, order
};

int64_t ValidTargets(std::span<const Sample> samples);

// Thread-compatible. The data set, operators and arena outlive it.
class BatchFeeder {
 public:
  BatchFeeder(const coatrack::v1::JobSpec& spec, const Dataset* dataset, Ops* ops, Arena* arena);

  StepBatch Next(DataPosition* position) const;
  // Microbatches [first, first + count) of the step that begins at `position`. Leaves the device
  // alone, so that the host can do it while the device computes. Memory of `step` is used again.
  void Prepare(const DataPosition& position, int64_t first, int64_t count, PreparedStep* step);
  // The validation sequences of an evaluation, at most train.eval_sequences.
  std::vector<Sample> ValidationSamples() const;

  // Both into the buffers of the batch without waiting; `index` counts from the step's first one.
  Batch Upload(const PreparedStep& step, int64_t index);
  Tensor UploadInverseCount(const PreparedStep& step);

  int64_t micro_batch() const { return micro_batch_; }
  // Microbatch `index` of `samples` into the batch buffers; sequences that do not exist are filled
  // up with ignored targets.
  Batch Upload(std::span<const Sample> samples, int64_t index);
  // 1 / valid_targets into its buffer; 0 when there are none.
  Tensor UploadInverseCount(int64_t valid_targets);

 private:
  // Tokens and targets of one microbatch, filled up.
  void Assemble(std::span<const Sample> samples, int64_t index, int32_t* tokens,
                int32_t* targets) const;
  int64_t tokens_per_microbatch() const { return micro_batch_ * sequence_length_; }

  const Dataset* dataset_;
  Ops* ops_;
  const int64_t global_batch_, micro_batch_, sequence_length_, eval_sequences_;
  const Batch batch_;
  const Tensor inverse_count_;
  std::vector<int32_t> tokens_, targets_, order_;  // what the buffers were last filled from
  float host_inverse_count_ = 0;
};

}  // namespace coat
