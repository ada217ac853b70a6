// What the one AdamW launch knows of each tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/ops/ops.h"
#include "worker/precision/expansion.h"

namespace coat {

struct AdamWMoment {
  void* values = nullptr;
  float* amax = nullptr;
  uint16_t* k16 = nullptr;
};

struct AdamWEntry {
  void* param = nullptr;
  const void* grad = nullptr;
  AdamWMoment m, v;
  uint16_t* copy = nullptr;      // BF16, or null
  float* weight_amax = nullptr;  // or null
  int64_t count = 0;
  int64_t element_offset = 0;
  int64_t first_chunk = 0;  // blocks of the launch before this tensor
  uint32_t id = 0;
  bool param_bf16 = false;
  bool grad_bf16 = false;
  bool decay = true;
};

// A block's share of a tensor. Its two sums (StepState) go to scratch and are added in order, so
// that a run repeats them.
inline constexpr int64_t kAdamWChunkGroups = 256;
inline constexpr int64_t kAdamWChunkElements = kAdamWChunkGroups * kExpansionGroup;
inline constexpr int64_t kAdamWCoefficientBytes = 256;

constexpr int64_t AdamWScratchBytes(int64_t chunks) {
  return kAdamWCoefficientBytes + 2 * chunks * static_cast<int64_t>(sizeof(float));
}

// Empty tensors are left out. `chunks`: blocks of the launch.
std::vector<AdamWEntry> MakeAdamWTable(std::span<const AdamWTensor> tensors, int64_t* chunks);

}  // namespace coat
