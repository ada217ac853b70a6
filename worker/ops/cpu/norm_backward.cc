#include <algorithm>

#include "configs/base/units.h"
#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"
#include "worker/ops/cpu/scratch.h"

namespace coat {
namespace {

// x rstd of n elements of a row.
void NormalizedTile(const NormBackwardArgs& args, int64_t row, int64_t col, int64_t n, float* out) {
  LoadActivation(args.x, row, 0, args.dy.cols(), col, n, out);
  const float rstd = args.rstd.as<float>()[row];
  for (int64_t i = 0; i < n; ++i) out[i] *= rstd;
}

// dx = rstd (g - xhat mean(g xhat)) with g = dy gamma, xhat = x rstd; dgamma += dy xhat.
void BackwardRow(const NormBackwardArgs& args, int64_t row, float* dgamma) {
  const float* gamma = args.gamma.as<float>();
  const float rstd = args.rstd.as<float>()[row];
  const int64_t cols = args.dy.cols();
  float xhat[kTile], dy[kTile], out[kTile];
  LaneSum dot;
  ForTiles(cols, [&](int64_t col, int64_t n) {
    NormalizedTile(args, row, col, n, xhat);
    LoadTile(args.dy, row, col, n, dy);
    for (int64_t i = 0; i < n; ++i) dgamma[col + i] += dy[i] * xhat[i];
    for (int64_t i = 0; i < n; ++i) dy[i] *= gamma[col + i];
    dot.AddProducts(dy, xhat, n);
  });
  const float mean = dot.Total() / static_cast<float>(cols);
  uint32_t largest = 0;
  ForTiles(cols, [&](int64_t col, int64_t n) {
    NormalizedTile(args, row, col, n, xhat);
    LoadTile(args.dy, row, col, n, dy);
    if (args.dresidual.empty()) {
      std::fill_n(out, n, 0.0f);
    } else {
      LoadTile(args.dresidual, row, col, n, out);
    }
    for (int64_t i = 0; i < n; ++i) {
      out[i] += rstd * (dy[i] * gamma[col + i] - xhat[i] * mean);
    }
    StoreTile(out, n, args.dresidual_out, row, col);
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, MagnitudeBits(RoundToBf16(out[i])));
  });
  if (!args.amax.empty()) args.amax.as<float>()[row] = BitsFloat(largest);
}

}  // namespace

void CpuOps::NormBackward(const NormBackwardArgs& args) {
  CheckArgs(args);
  const int64_t rows = args.dy.rows(), cols = args.dy.cols();
  const int64_t grain = std::max<int64_t>(1, CeilDiv(rows, kNormPartials));
  float* partials = Scratch(NormPartialFloats(cols), "NormBackward");
  pool_.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    float* dgamma = partials + begin / grain * cols;
    std::fill_n(dgamma, cols, 0.0f);
    for (int64_t row = begin; row < end; ++row) BackwardRow(args, row, dgamma);
  });
  float* total = args.dgamma.as<float>();
  for (int64_t i = 1; i < CeilDiv(rows, grain); ++i) {
    for (int64_t j = 0; j < cols; ++j) partials[j] += partials[i * cols + j];
  }
  if (rows == 0) return;
  for (int64_t j = 0; j < cols; ++j) total[j] += partials[j];
}

}  // namespace coat
