#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {

void CpuOps::NormApply(const NormApplyArgs& args) {
  CheckArgs(args);
  const float* rstd = args.rstd.as<float>();
  const float* gamma = args.gamma.as<float>();
  const int64_t rows = args.rstd.numel(), cols = args.gamma.numel();
  WriteOperand(rows, cols, args.scale, args.out, args.out_transposed, pool_,
               [&](int64_t row, int64_t col, int64_t n, float* values) {
                 LoadActivation(args.x, row, 0, cols, col, n, values);
                 for (int64_t i = 0; i < n; ++i) {
                   values[i] = NormValue(values[i], rstd[row], gamma[col + i]);
                 }
               });
}

}  // namespace coat
