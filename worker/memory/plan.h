// The list of tensors of one rank: what the arena allocates, what `coat plan` prints, what the
// scheduler admits by. Pure: needs no device and no file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/tensor/tensor.h"

namespace coat {

// Order and names are those of coat_memory_bytes{kind}.
enum class MemoryKind : uint8_t {
  kWeights,
  kMaster,
  kGradients,
  kOptimizer,
  kActivations,
  kWorkspace,
  kCommunication
};
inline constexpr int kMemoryKinds = 7;
const char* MemoryKindName(MemoryKind kind);  // "weights", ...

struct PlannedTensor {
  std::string name;  // unique, for example "layers.3.attention_norm.q8.codes"
  MemoryKind kind = MemoryKind::kActivations;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t ld = 0;      // elements between rows
  int64_t offset = 0;  // in the arena, a multiple of 256
  int64_t bytes = 0;   // reserved at offset: storage rounded up to 256. 0 for a member of
                       // "transients": those live only in some stages of a microbatch and share
                       // that one pool, which is counted as a tensor of its own.
};

struct MemoryPlan {
  std::vector<PlannedTensor> tensors;
  std::array<int64_t, kMemoryKinds> bytes_by_kind{};
  int64_t total_bytes = 0;  // == sum of bytes_by_kind == arena size
  int64_t parameters = 0;
  int64_t activation_bytes_per_layer = 0;  // saved for backward, mean over the layers
};

// Lists every tensor of `rank` of `world_size` for a spec with defaults applied (configs/spec).
// Errors: throws Error(kInvalidArgument) naming the field for a spec that validation refuses.
MemoryPlan MakePlan(const coatrack::v1::JobSpec& spec, int rank, int world_size, DeviceType device);

// The same job with recipe bf16, its optimizer state in FP32: what dashboards compare with.
coatrack::v1::JobSpec Bf16Counterpart(const coatrack::v1::JobSpec& spec);

}  // namespace coat
