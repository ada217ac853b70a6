#include "worker/trainer/batch_feeder.h"

#include <algorithm>

#include "configs/base/error.h"

namespace coat {

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

Batch BatchFeeder::Upload(std::span<const Sample> samples, int64_t index) {
  const int64_t first = index * micro_batch_;
  tokens_.clear();
  targets_.clear();
  for (int64_t i = first; i < first + micro_batch_; ++i) {
    if (i >= static_cast<int64_t>(samples.size())) {
      tokens_.resize(tokens_.size() + static_cast<size_t>(sequence_length_), 0);
      targets_.resize(targets_.size() + static_cast<size_t>(sequence_length_), -1);
      continue;
    }
    const Sample& sample = samples[static_cast<size_t>(i)];
    Check(static_cast<int64_t>(sample.tokens.size()) == sequence_length_ &&
              sample.targets.size() == sample.tokens.size(),
          "a sample is not train.sequence_length long");
    tokens_.insert(tokens_.end(), sample.tokens.begin(), sample.tokens.end());
    targets_.insert(targets_.end(), sample.targets.begin(), sample.targets.end());
  }
  order_ = TokenOrder(tokens_);
  ops_->ToDevice(tokens_.data(), batch_.tokens);
  ops_->ToDevice(targets_.data(), batch_.targets);
  ops_->ToDevice(order_.data(), batch_.order);
  return batch_;
}

Tensor BatchFeeder::UploadInverseCount(int64_t valid_targets) {
  host_inverse_count_ = valid_targets > 0 ? 1.0f / static_cast<float>(valid_targets) : 0.0f;
  ops_->ToDevice(&host_inverse_count_, inverse_count_);
  return inverse_count_;
}

}  // namespace coat
