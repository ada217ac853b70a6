// What happens to a spec before it reaches the coordinator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "configs/spec/violation.h"
#include "server/loops/coordinator.h"
#include "worker/memory/plan.h"

namespace coat {

inline constexpr int64_t kMaxSubmittedSpecBytes = 256 * 1024;

struct CheckedSpec {
  Coordinator::Submission submission;  // without request id
  MemoryPlan plan;  // of rank 0 on the preferred device: gpu only where asked for
  MemoryPlan bf16_plan;
  Violations violations;  // not empty: the rest is not set
};

// Applies defaults, validates, hashes the canonical text and predicts the largest rank's bytes on
// both kinds of device. `with_bf16` fills bf16_plan. Pure; a few milliseconds.
CheckedSpec CheckSpec(const coatrack::v1::JobSpec& submitted, bool with_bf16);

// Lower-case hex.
std::string Sha256Hex(const std::string& text);

}  // namespace coat
