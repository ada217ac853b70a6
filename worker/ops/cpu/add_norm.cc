#include <cmath>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

// Residual sum and 1x16 codes of one row; returns the sum of squares of what the norm reads.
float AddAndQuantizeRow(const AddNormArgs& args, int64_t row) {
  LaneSum squares;
  ForTiles(args.residual.cols(), [&](int64_t col, int64_t n) {
    float x[kTile];
    LoadTile(args.residual, row, col, n, x);
    if (!args.branch.empty()) {
      const uint16_t* branch = At<uint16_t>(args.branch, row, col);
      uint16_t* out = At<uint16_t>(args.residual_out, row, col);
      for (int64_t i = 0; i < n; ++i) {
        out[i] = Bf16FromFloat(x[i] + FloatFromBf16(branch[i]));
        x[i] = FloatFromBf16(out[i]);
      }
    }
    if (!args.q8.empty()) {
      QuantizeGroups(x, n, At<uint8_t>(args.q8.codes, row, col), ScaleAt(args.q8, row, 0, col));
    }
    squares.AddProducts(x, x, n);
  });
  return squares.Total();
}

float NormRowAmax(const AddNormArgs& args, const Activation& x, int64_t row, float rstd) {
  const float* gamma = args.gamma.as<float>();
  const int64_t cols = args.residual.cols();
  uint32_t largest = 0;
  ForTiles(cols, [&](int64_t col, int64_t n) {
    float values[kTile];
    LoadActivation(x, row, 0, cols, col, n, values);
    for (int64_t i = 0; i < n; ++i) values[i] = NormValue(values[i], rstd, gamma[col + i]);
    largest = MaxMagnitude(values, n, largest);
  });
  return BitsFloat(largest);
}

}  // namespace

void CpuOps::AddNorm(const AddNormArgs& args) {
  CheckArgs(args);
  const Tensor& stored = args.branch.empty() ? args.residual : args.residual_out;
  const Activation x = args.q8.empty() ? Activation{stored, {}} : Activation{{}, args.q8};
  const float count = static_cast<float>(args.residual.cols());
  pool_.ParallelFor(args.residual.rows(), kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float squares = AddAndQuantizeRow(args, row);
      const float rstd = 1.0f / std::sqrt(squares / count + args.eps);
      args.rstd.as<float>()[row] = rstd;
      if (!args.amax.empty()) args.amax.as<float>()[row] = NormRowAmax(args, x, row, rstd);
    }
  });
}

}  // namespace coat
