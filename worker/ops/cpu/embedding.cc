#include <string>

#include "configs/base/error.h"
#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"

namespace coat {
namespace {

void CheckTokens(const char* op, const Tensor& tokens, int64_t vocab) {
  const int32_t* ids = tokens.as<int32_t>();
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      throw Error(Code::kInternal, std::string(op) + ": token " + std::to_string(ids[i]) +
                                       " at position " + std::to_string(i) +
                                       " is outside the vocabulary of " + std::to_string(vocab));
    }
  }
}

}  // namespace

void CpuOps::Embedding(const EmbeddingArgs& args) {
  CheckArgs(args);
  CheckTokens("Embedding", args.tokens, args.table.rows());
  const int32_t* tokens = args.tokens.as<int32_t>();
  pool_.ParallelFor(args.tokens.numel(), kRowGrain, [&](int64_t begin, int64_t end) {
    float tile[kTile];
    for (int64_t row = begin; row < end; ++row) {
      ForTiles(args.out.cols(), [&](int64_t col, int64_t n) {
        LoadTile(args.table, tokens[row], col, n, tile);
        StoreTile(tile, n, args.out, row, col);
      });
    }
  });
}

void CpuOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  CheckArgs(args);
  CheckTokens("EmbeddingBackward", args.tokens, args.dtable.rows());
  const int32_t* tokens = args.tokens.as<int32_t>();
  const int32_t* order = args.order.as<int32_t>();
  const int64_t count = args.tokens.numel();
  const auto token_at = [&](int64_t i) { return tokens[order[i]]; };
  // A chunk sums the segments (runs of one token) that begin inside it.
  pool_.ParallelFor(count, kRowGrain, [&](int64_t begin, int64_t end) {
    float sum[kTile], tile[kTile];
    for (int64_t i = begin; i < end;) {
      if (i > 0 && token_at(i) == token_at(i - 1)) {
        ++i;
        continue;
      }
      int64_t next = i + 1;
      while (next < count && token_at(next) == token_at(i)) ++next;
      ForTiles(args.dout.cols(), [&](int64_t col, int64_t n) {
        std::fill_n(sum, n, 0.0f);
        for (int64_t k = i; k < next; ++k) {
          LoadTile(args.dout, order[k], col, n, tile);
          for (int64_t j = 0; j < n; ++j) sum[j] += tile[j];
        }
        LoadTile(args.dtable, token_at(i), col, n, tile);
        for (int64_t j = 0; j < n; ++j) sum[j] += tile[j];
        StoreTile(sum, n, args.dtable, token_at(i), col);
      });
      i = next;
    }
  });
}

}  // namespace coat
