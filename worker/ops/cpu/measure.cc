#include <algorithm>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

struct Counters {
  double values = 0, nonzero = 0, saturated = 0, flushed = 0, error_sq = 0, value_sq = 0;
};

template <typename F>
void MeasureValues(const float* x, int64_t n, float scale, Counters& counters) {
  const float inverse = InverseScale(scale);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t code = Fp8Encode<F>(x[i] * inverse);
    const uint32_t magnitude = code & 0x7Fu;
    counters.values += 1;
    counters.nonzero += x[i] != 0.0f;
    counters.saturated += magnitude >= F::kMaxCode;
    counters.flushed += x[i] != 0.0f && magnitude == 0;
    if (magnitude == kNotFiniteCode) continue;
    const double error = static_cast<double>(x[i]) - Dequantize(Fp8Decode<F>(code), scale);
    counters.error_sq += error * error;
    counters.value_sq += static_cast<double>(x[i]) * x[i];
  }
}

void MeasureRow(const MeasureArgs& args, int64_t row, Counters& counters) {
  const int64_t cols = args.x.cols() / args.segments;
  float x[kTile];
  for (int segment = 0; segment < args.segments; ++segment) {
    ForTiles(cols, [&](int64_t col, int64_t n) {
      LoadTile(args.x, row, segment * cols + col, n, x);
      if (!args.scale.empty()) {
        const float scale = *args.scale.as<float>();
        if (args.format == DType::kE4M3) {
          MeasureValues<E4M3>(x, n, scale, counters);
        } else {
          MeasureValues<E5M2>(x, n, scale, counters);
        }
        return;
      }
      for (int64_t i = 0; i < n; i += kGroup) {
        const int64_t size = std::min(kGroup, n - i);
        const uint32_t amax = MaxMagnitude(x + i, size, 0);
        MeasureValues<E4M3>(x + i, size, FloatFromBf16(GroupScale(BitsFloat(amax))), counters);
      }
    });
  }
}

}  // namespace

void CpuOps::Measure(const MeasureArgs& args) {
  CheckArgs(args);
  Counters sum;
  for (int64_t row = 0; row < args.x.rows(); ++row) MeasureRow(args, row, sum);
  float* out = args.counters.as<float>();
  const double added[] = {sum.values,  sum.nonzero,  sum.saturated,
                          sum.flushed, sum.error_sq, sum.value_sq};
  for (int i = 0; i < 6; ++i) out[i] = static_cast<float>(out[i] + added[i]);
}

}  // namespace coat
