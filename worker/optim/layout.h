// Which tensors the optimizer keeps for a stored parameter: names, types, shapes. Pure; memory/plan
// puts them into the plan (kind optimizer), the optimizer finds them in the arena by name, and a
// checkpoint stores them under the same names (NUMERICS 5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/ops/ops.h"

namespace coat {

inline constexpr int64_t kMomentGroup = 128;  // consecutive elements that share a (and k)
inline constexpr char kStepStateName[] = "optimizer.step_state";

struct StateTensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // contiguous
};

// The optimizer state of `spec`. Defaults are applied; an unspecified value throws
// Error(kInvalidArgument) naming the field.
struct OptimizerFormats {
  MomentStorage storage = MomentStorage::kFp8Dre;
  DType m = DType::kE4M3, v = DType::kE4M3;  // of Moment::values
};
OptimizerFormats ResolveOptimizerFormats(const coatrack::v1::JobSpec& spec);

// What runs, for records: "fp8_dre e4m3/e4m3", "fp8 e4m3/e5m2", "bf16", "fp32".
std::string OptimizerStateName(const OptimizerFormats& formats);

// For a parameter of P = product(shape) elements and G = ceil(P / 128):
//   <parameter>.m.values, .v.values  E4M3 / E5M2 / BF16 / F32, shape of the parameter
//   <parameter>.m.amax,   .v.amax    F32 (G); fp8_dre: a, fp8: the scale of the group
//   <parameter>.m.k16,    .v.k16     U16 (G); fp8_dre only
std::vector<StateTensorSpec> OptimizerStateLayout(const coatrack::v1::JobSpec& spec,
                                                  std::string_view parameter,
                                                  const std::vector<int64_t>& shape);

// The one StepState in device memory: kStepStateName, U8 (sizeof(StepState)).
StateTensorSpec StepStateLayout();

}  // namespace coat
