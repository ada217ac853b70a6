// The pairs of formats for both moments of AdamW that the paper compares (arXiv 2410.19313,
// table 1), and the error each makes in the update (NUMERICS 5).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/tensor/tensor.h"

namespace coat {

enum class MomentCodec : uint8_t {
  kPlain,         // NUMERICS 1, one FP32 scale a group of 128
  kPlainNonZero,  // the same, but a non-zero value takes the smallest code instead of zero: fp8
  kExpanded,      // with dynamic range expansion: fp8_dre
};
const char* MomentCodecName(MomentCodec codec);  // "plain", "plain_nonzero", "expanded"

struct MomentPair {
  DType m = DType::kE4M3, v = DType::kE4M3;
  MomentCodec codec = MomentCodec::kPlain;

  double bytes_per_parameter() const;  // both moments, full groups
};

// m/v: E4M3/E4M3, E4M3/E5M2, E5M2/E4M3, E5M2/E5M2, each with every codec; plain E4M3/E4M3 first.
std::vector<MomentPair> PaperPairs();

// Sums over elements; u = m / sqrt(v), 0 where v = 0, without eps.
struct UpdateError {
  double squared_error = 0;  // sum (u - u^)^2
  double squared = 0;        // sum u^2
  int64_t elements = 0;

  double mean() const;      // mean (u - u^)^2
  double relative() const;  // sum (u - u^)^2 / sum u^2
};

// Adds one stored tensor's moments, both of the same length.
void AddUpdateError(const MomentPair& pair, std::span<const float> m, std::span<const float> v,
                    UpdateError* error);

}  // namespace coat
