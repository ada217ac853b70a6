#include <algorithm>
#include <cmath>
#include <string>

#include "configs/base/error.h"
#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

void CheckTargets(const CrossEntropyArgs& args) {
  const int32_t* targets = args.targets.as<int32_t>();
  for (int64_t row = 0; row < args.targets.numel(); ++row) {
    Check(targets[row] < args.logits.cols(),
          "CrossEntropy: target " + std::to_string(targets[row]) + " of row " +
              std::to_string(row) + " is outside the vocabulary of " +
              std::to_string(args.logits.cols()));
  }
}

float RowMax(const Tensor& logits, int64_t row) {
  float max = -INFINITY;
  ForTiles(logits.cols(), [&](int64_t col, int64_t n) {
    float x[kTile];
    LoadTile(logits, row, col, n, x);
    max = MaxValue(x, n, max);
  });
  return max;
}

float ExpSum(const Tensor& logits, int64_t row, float max) {
  LaneSum sum;
  ForTiles(logits.cols(), [&](int64_t col, int64_t n) {
    float x[kTile];
    LoadTile(logits, row, col, n, x);
    for (int64_t i = 0; i < n; ++i) x[i] = Exp(x[i] - max);
    sum.Add(x, n);
  });
  return sum.Total();
}

void ZeroRow(const Tensor& x, int64_t row, int64_t first) {
  std::fill(At<uint16_t>(x, row, first), At<uint16_t>(x, row, x.ld), uint16_t{0});
}

void Gradient(const CrossEntropyArgs& args, int64_t row, float max, float sum) {
  const float inverse_count = *args.inverse_count.as<float>();
  const int64_t target = args.targets.as<int32_t>()[row];
  const float inverse_sum = 1.0f / sum;
  ForTiles(args.logits.cols(), [&](int64_t col, int64_t n) {
    float x[kTile];
    LoadTile(args.logits, row, col, n, x);
    for (int64_t i = 0; i < n; ++i) x[i] = Exp(x[i] - max) * inverse_sum;
    if (target >= col && target < col + n) x[target - col] -= 1.0f;
    for (int64_t i = 0; i < n; ++i) x[i] *= inverse_count;
    StoreTile(x, n, args.dlogits, row, col);
  });
  ZeroRow(args.dlogits, row, args.logits.cols());
}

}  // namespace

void CpuOps::CrossEntropy(const CrossEntropyArgs& args) {
  CheckArgs(args);
  CheckTargets(args);
  const int32_t* targets = args.targets.as<int32_t>();
  float* nll = args.nll.as<float>();
  pool_.ParallelFor(args.logits.rows(), kRowGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (targets[row] < 0) {
        nll[row] = 0.0f;
        if (!args.dlogits.empty()) ZeroRow(args.dlogits, row, 0);
        continue;
      }
      const float max = RowMax(args.logits, row);
      const float sum = ExpSum(args.logits, row, max);
      float target_logit = 0;
      LoadTile(args.logits, row, targets[row], 1, &target_logit);
      nll[row] = std::log(sum) + (max - target_logit);
      if (!args.dlogits.empty()) Gradient(args, row, max, sum);
    }
  });
}

}  // namespace coat
