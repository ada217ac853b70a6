// From the data set to the batch buffers of the arena.
#pragma once

#include <cstdint>
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

int64_t ValidTargets(std::span<const Sample> samples);

// Thread-compatible. The data set, operators and arena outlive it.
class BatchFeeder {
 public:
  BatchFeeder(const coatrack::v1::JobSpec& spec, const Dataset* dataset, Ops* ops, Arena* arena);

  StepBatch Next(DataPosition* position) const;
  // The validation sequences of an evaluation, at most train.eval_sequences.
  std::vector<Sample> ValidationSamples() const;

  int64_t micro_batch() const { return micro_batch_; }
  // Microbatch `index` of `samples` into the batch buffers; sequences that do not exist are filled
  // up with ignored targets.
  Batch Upload(std::span<const Sample> samples, int64_t index);
  // 1 / valid_targets into its buffer; 0 when there are none.
  Tensor UploadInverseCount(int64_t valid_targets);

 private:
  const Dataset* dataset_;
  Ops* ops_;
  const int64_t global_batch_, micro_batch_, sequence_length_, eval_sequences_;
  const Batch batch_;
  const Tensor inverse_count_;
  std::vector<int32_t> tokens_, targets_, order_;  // what the buffers were last filled from
  float host_inverse_count_ = 0;
};

}  // namespace coat
