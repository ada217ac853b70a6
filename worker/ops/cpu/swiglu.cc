#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

// gate becomes silu(gate) up.
void Product(float* gate, const float* up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gate[i] = SwigluValue(gate[i], up[i]);
}

}  // namespace

void CpuOps::GateUpQuantize(const GateUpQuantizeArgs& args) {
  CheckArgs(args);
  const int64_t f = args.gate_up.cols() / 2;
  pool_.ParallelFor(args.gate_up.rows(), kRowGrain, [&](int64_t begin, int64_t end) {
    float part[2][kTile];
    for (int64_t row = begin; row < end; ++row) {
      uint32_t largest = 0;
      ForTiles(f, [&](int64_t col, int64_t n) {
        for (int segment = 0; segment < 2; ++segment) {
          const int64_t first = segment * f + col;
          LoadTile(args.gate_up, row, first, n, part[segment]);
          if (args.q8.empty()) continue;
          QuantizeGroups(part[segment], n, At<uint8_t>(args.q8.codes, row, first),
                         ScaleAt(args.q8, row, segment, col));
        }
        if (args.amax.empty()) return;
        Product(part[0], part[1], n);
        largest = MaxMagnitude(part[0], n, largest);
      });
      if (!args.amax.empty()) args.amax.as<float>()[row] = BitsFloat(largest);
    }
  });
}

void CpuOps::Swiglu(const SwigluArgs& args) {
  CheckArgs(args);
  const Tensor& x = args.gate_up.q8.empty() ? args.gate_up.bf16 : args.gate_up.q8.codes;
  const int64_t f = x.cols() / 2;
  WriteOperand(x.rows(), f, args.scale, args.out, args.out_transposed, pool_,
               [&](int64_t row, int64_t col, int64_t n, float* values) {
                 float up[kTile];
                 LoadActivation(args.gate_up, row, 0, f, col, n, values);
                 LoadActivation(args.gate_up, row, 1, f, col, n, up);
                 Product(values, up, n);
               });
}

void CpuOps::SwigluBackward(const SwigluBackwardArgs& args) {
  CheckArgs(args);
  const int64_t f = args.dy.cols();
  pool_.ParallelFor(args.dy.rows(), kRowGrain, [&](int64_t begin, int64_t end) {
    float gate[kTile], up[kTile], dy[kTile];
    for (int64_t row = begin; row < end; ++row) {
      uint32_t largest = 0;
      ForTiles(f, [&](int64_t col, int64_t n) {
        LoadActivation(args.gate_up, row, 0, f, col, n, gate);
        LoadActivation(args.gate_up, row, 1, f, col, n, up);
        LoadTile(args.dy, row, col, n, dy);
        for (int64_t i = 0; i < n; ++i) {
          const SwigluGradient gradient = SwigluBackwardValue(gate[i], up[i], dy[i]);
          gate[i] = RoundToBf16(gradient.gate);
          up[i] = RoundToBf16(gradient.up);
        }
        StoreTile(gate, n, args.dgate_up, row, col);
        StoreTile(up, n, args.dgate_up, row, f + col);
        largest = MaxMagnitude(up, n, MaxMagnitude(gate, n, largest));
      });
      if (!args.amax.empty()) args.amax.as<float>()[row] = BitsFloat(largest);
    }
  });
}

}  // namespace coat
