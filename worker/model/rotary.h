// Angles of the rotary embedding (NUMERICS 3, row 4).
#pragma once

#include <cstdint>
#include <vector>

namespace coat {

struct RotaryTables {
  std::vector<float> cos, sin;  // (seq, head_size / 2)
};

// cos and sin of position x theta^(-2 i / head_size), computed in FP64 and rounded once.
RotaryTables MakeRotaryTables(int64_t seq, int64_t head_size, double theta);

}  // namespace coat
