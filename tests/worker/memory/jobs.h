// Jobs of real sizes, and the options a plan depends on.
#pragma once

#include <string>

#include "coatrack/v1/job.pb.h"
#include "configs/base/error.h"
#include "configs/spec/defaults.h"

namespace coat {

inline coatrack::v1::JobSpec WithDefaults(coatrack::v1::JobSpec spec) {
  const Status status = ViolationsToStatus(ApplyDefaults(&spec));
  if (!status.ok()) throw Error(status);
  return spec;
}

// Defaults not applied.
inline coatrack::v1::JobSpec Job(const std::string& preset, int64_t micro_batch, int64_t sequence) {
  coatrack::v1::JobSpec spec;
  spec.set_name("plan");
  spec.mutable_model()->set_preset(preset);
  spec.mutable_data()->add_tokens("train.bin");
  auto* train = spec.mutable_train();
  train->set_steps(10);
  train->set_sequence_length(sequence);
  train->set_global_batch(micro_batch);
  train->set_micro_batch(micro_batch);
  spec.mutable_optimizer()->set_lr(1e-3);
  return spec;
}

}  // namespace coat
