#include "worker/trainer/batch_feeder.h"

#include <algorithm>
#include <cstring>

#include "configs/base/error.h"

namespace coat {
namespace {

// Layout of PreparedStep::memory in elements of four bytes.
constexpr int64_t kElementBytes = 4;
constexpr int64_t kHeader = 64;  // 1 / M, and rows that begin aligned
constexpr int64_t kRows = 3;     // tokens, targets, order

int32_t* Rows(const PreparedStep& step, int64_t index, int64_t tokens) {
  return reinterpret_cast<int32_t*>(step.memory.get()) + kHeader + index * kRows * tokens;
}

float InverseCount(int64_t valid_targets) {
  return valid_targets > 0 ? 1.0f / static_cast<float>(valid_targets) : 0.0f;
}

}  // namespace

int64_t ValidTargets(std::span<const Sample> samples) {
  int64_t count = 0;
  for (const Sample& sample : samples) {
    count += std::count_if(sample.targets.begin(), sample.targets.end(),
                           [](int32_t target) { return target >= 0; });
  }
  return count;
}

BatchFeeder::BatchFeeder(const coatrack::v1::JobSpec& spec, const Dataset* dataset, Ops* ops,
                         Arena* arena)
    : dataset_(dataset),
      ops_(ops),
      global_batch_(spec.train().global_batch()),
      micro_batch_(spec.train().micro_batch()),
      sequence_length_(spec.train().sequence_length()),
      eval_sequences_(spec.train().eval_sequences()),
      batch_(BatchBuffers(*arena)),
      inverse_count_(arena->Get(kBatchInverseCount)) {}

StepBatch BatchFeeder::Next(DataPosition* position) const {
  StepBatch batch;
  batch.samples = NextSamples(*dataset_, global_batch_, position);
  batch.valid_targets = ValidTargets(batch.samples);
  return batch;
}

std::vector<Sample> BatchFeeder::ValidationSamples() const {
  std::vector<Sample> samples;
  const int64_t count = std::min(eval_sequences_, dataset_->validation_samples());
  for (int64_t i = 0; i < count; ++i) samples.push_back(dataset_->Validation(i));
  return samples;
}

void BatchFeeder::Assemble(std::span<const Sample> samples, int64_t index, int32_t* tokens,
                           int32_t* targets) const {
  const int64_t first = index * micro_batch_;
  for (int64_t i = first; i < first + micro_batch_; ++i) {
    if (i >= static_cast<int64_t>(samples.size())) {
      tokens = std::fill_n(tokens, sequence_length_, 0);
      targets = std::fill_n(targets, sequence_length_, -1);
      continue;
    }
    const Sample& sample = samples[static_cast<size_t>(i)];
    Check(static_cast<int64_t>(sample.tokens.size()) == sequence_length_ &&
              sample.targets.size() == sample.tokens.size(),
          "a sample is not train.sequence_length long");
    tokens = std::copy(sample.tokens.begin(), sample.tokens.end(), tokens);
    targets = std::copy(sample.targets.begin(), sample.targets.end(), targets);
  }
}

void BatchFeeder::Prepare(const DataPosition& position, int64_t first, int64_t count,
                          PreparedStep* step) {
  const int64_t tokens = tokens_per_microbatch();
  if (!step->memory || step->microbatches != count) {
    step->memory = ops_->HostBuffer((kHeader + count * kRows * tokens) * kElementBytes);
    step->microbatches = count;
  }
  step->next = position;
  const StepBatch batch = Next(&step->next);
  step->sequences = static_cast<int64_t>(batch.samples.size());
  step->valid_targets = batch.valid_targets;
  const float inverse = InverseCount(batch.valid_targets);
  std::memcpy(step->memory.get(), &inverse, sizeof inverse);
  for (int64_t i = 0; i < count; ++i) {
    int32_t* rows = Rows(*step, i, tokens);
    Assemble(batch.samples, first + i, rows, rows + tokens);
    const std::vector<int32_t> order = TokenOrder(std::vector<int32_t>(rows, rows + tokens));
    std::copy(order.begin(), order.end(), rows + 2 * tokens);
  }
}

Batch BatchFeeder::Upload(const PreparedStep& step, int64_t index) {
  const int64_t tokens = tokens_per_microbatch();
  const int32_t* rows = Rows(step, index, tokens);
  ops_->ToDevice(rows, batch_.tokens);
  ops_->ToDevice(rows + tokens, batch_.targets);
  ops_->ToDevice(rows + 2 * tokens, batch_.order);
  return batch_;
}

Tensor BatchFeeder::UploadInverseCount(const PreparedStep& step) {
  ops_->ToDevice(step.memory.get(), inverse_count_);
  return inverse_count_;
}

Batch BatchFeeder::Upload(std::span<const Sample> samples, int64_t index) {
  tokens_.resize(static_cast<size_t>(tokens_per_microbatch()));
  targets_.resize(tokens_.size());
  Assemble(samples, index, tokens_.data(), targets_.data());
  order_ = TokenOrder(tokens_);
  ops_->ToDevice(tokens_.data(), batch_.tokens);
  ops_->ToDevice(targets_.data(), batch_.targets);
  ops_->ToDevice(order_.data(), batch_.order);
  return batch_;
}

Tensor BatchFeeder::UploadInverseCount(int64_t valid_targets) {
  host_inverse_count_ = InverseCount(valid_targets);
  ops_->ToDevice(&host_inverse_count_, inverse_count_);
  return inverse_count_;
}

}  // namespace coat
