#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

void RotateHead(uint16_t* head, int64_t half, const float* cos, const float* sin, float sign) {
  for (int64_t i = 0; i < half; ++i) {
    const RopePair x{FloatFromBf16(head[i]), FloatFromBf16(head[i + half])};
    const RopePair y = Rotate(x, cos[i], sign * sin[i]);
    head[i] = Bf16FromFloat(y.first);
    head[i + half] = Bf16FromFloat(y.second);
  }
}

}  // namespace

void CpuOps::Rope(const RopeArgs& args) {
  CheckArgs(args);
  const AttentionShape& shape = args.shape;
  const int64_t half = shape.head_size / 2;
  const float sign = args.backward ? -1.0f : 1.0f;
  pool_.ParallelFor(shape.tokens(), kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angle = row % shape.seq * half;
      const float* cos = args.cos.as<float>() + angle;
      const float* sin = args.sin.as<float>() + angle;
      for (int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
        RotateHead(At<uint16_t>(args.qkv, row, head * shape.head_size), half, cos, sin, sign);
      }
      if (args.amax.empty()) continue;
      uint32_t largest = 0;
      ForTiles(args.qkv.cols(), [&](int64_t col, int64_t n) {
        float x[kTile];
        LoadTile(args.qkv, row, col, n, x);
        largest = MaxMagnitude(x, n, largest);
      });
      args.amax.as<float>()[row] = BitsFloat(largest);
    }
  });
}

}  // namespace coat
