#include "worker/model/rotary.h"

#include <cmath>

namespace coat {

RotaryTables MakeRotaryTables(int64_t seq, int64_t head_size, double theta) {
  RotaryTables tables;
  const int64_t pairs = head_size / 2;
  tables.cos.reserve(static_cast<size_t>(seq * pairs));
  tables.sin.reserve(static_cast<size_t>(seq * pairs));
  for (int64_t position = 0; position < seq; ++position) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_size);
      const double angle = static_cast<double>(position) * std::pow(theta, exponent);
      tables.cos.push_back(static_cast<float>(std::cos(angle)));
      tables.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return tables;
}

}  // namespace coat
