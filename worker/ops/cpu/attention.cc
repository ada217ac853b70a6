#include <cblas.h>

#include <algorithm>
#include <cmath>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"
#include "worker/ops/cpu/scratch.h"

namespace coat {
namespace {

// FP32 row-major matrices in the workspace.
struct Block {
  float* data = nullptr;
  int64_t rows = 0, cols = 0;
  float* row(int64_t i) const { return data + i * cols; }
  Block Rows(int64_t count) const { return {data, count, cols}; }
  Block Packed(int64_t count) const { return {data, rows, count}; }  // count columns, no gap
};

// Scratch of one head; the layout AttentionScratchFloats adds up.
struct HeadScratch {
  Block k, v, dk, dv;     // (T, dh)
  Block q, dq, o, dout;   // (kQueryRows, dh)
  Block scores, dscores;  // (kQueryRows, T)

  HeadScratch(const AttentionShape& shape, float* data) {
    for (Block* x : {&k, &v, &dk, &dv}) data = Place(x, shape.seq, shape.head_size, data);
    for (Block* x : {&q, &dq, &o, &dout}) data = Place(x, kQueryRows, shape.head_size, data);
    for (Block* x : {&scores, &dscores}) data = Place(x, kQueryRows, shape.seq, data);
  }

 private:
  static float* Place(Block* x, int64_t rows, int64_t cols, float* data) {
    *x = {data, rows, cols};
    return data + rows * cols;
  }
};

// to = alpha op(a) op(b) + beta to.
void Multiply(bool a_transposed, bool b_transposed, float alpha, const Block& a, const Block& b,
              float beta, const Block& to) {
  const int64_t k = a_transposed ? a.rows : a.cols;
  cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
              b_transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(to.rows),
              static_cast<blasint>(to.cols), static_cast<blasint>(k), alpha, a.data,
              static_cast<blasint>(a.cols), b.data, static_cast<blasint>(b.cols), beta, to.data,
              static_cast<blasint>(to.cols));
}

void Load(const Tensor& x, int64_t row, int64_t col, const Block& to, ThreadPool& pool) {
  pool.ParallelFor(to.rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) LoadTile(x, row + i, col, to.cols, to.row(i));
  });
}

void Store(const Block& x, const Tensor& to, int64_t row, int64_t col, ThreadPool& pool) {
  pool.ParallelFor(x.rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) StoreTile(x.row(i), x.cols, to, row + i, col);
  });
}

// Which columns of [q | k | v] a head reads.
struct HeadColumns {
  int64_t q = 0, k = 0, v = 0;
};
HeadColumns ColumnsOf(const AttentionShape& shape, int64_t head) {
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  return {head * shape.head_size, (shape.heads + kv_head) * shape.head_size,
          (shape.heads + shape.kv_heads + kv_head) * shape.head_size};
}

// Scores of a query row become its probabilities times their sum; later keys become zero.
// Returns the log-sum-exp; `inverse` is 1 / sum.
float SoftmaxRow(float* scores, int64_t visible, int64_t cols, float* inverse) {
  const float max = MaxValue(scores, visible, -INFINITY);
  for (int64_t j = 0; j < visible; ++j) scores[j] = Exp(scores[j] - max);
  std::fill(scores + visible, scores + cols, 0.0f);
  LaneSum sum;
  sum.Add(scores, visible);
  *inverse = 1.0f / sum.Total();
  return max + std::log(sum.Total());
}

void ForwardRows(const AttentionArgs& args, int64_t batch, int64_t head, int64_t first,
                 int64_t count, const HeadScratch& scratch, ThreadPool& pool) {
  const AttentionShape& shape = args.shape;
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  const int64_t keys = first + count, row = batch * shape.seq + first;
  const Block q = scratch.q.Rows(count), o = scratch.o.Rows(count);
  const Block scores = scratch.scores.Rows(count).Packed(keys);
  float* lse = args.lse.as<float>() + (batch * shape.heads + head) * shape.seq + first;
  Load(args.qkv, row, ColumnsOf(shape, head).q, q, pool);
  Multiply(false, true, scale, q, scratch.k.Rows(keys), 0.0f, scores);
  float inverse[kQueryRows];
  pool.ParallelFor(count, kRowGrain / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      lse[i] = SoftmaxRow(scores.row(i), first + i + 1, keys, &inverse[i]);
    }
  });
  Multiply(false, false, 1.0f, scores, scratch.v.Rows(keys), 0.0f, o);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < o.cols; ++j) o.row(i)[j] *= inverse[i];
  }
  Store(o, args.o, row, head * shape.head_size, pool);
}

// Turns scores into p and dscores (dout v^T) into p (dp - delta), delta = sum dout o.
void ScoreGradients(const HeadScratch& scratch, const Block& scores, const Block& dscores,
                    const float* lse, int64_t first, ThreadPool& pool) {
  pool.ParallelFor(scores.rows, kRowGrain / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      LaneSum delta;
      delta.AddProducts(scratch.dout.row(i), scratch.o.row(i), scratch.o.cols);
      const float total = delta.Total();
      float* p = scores.row(i);
      float* dp = dscores.row(i);
      const int64_t visible = first + i + 1;
      for (int64_t j = 0; j < visible; ++j) {
        p[j] = Exp(p[j] - lse[i]);
        dp[j] = p[j] * (dp[j] - total);
      }
      std::fill(p + visible, p + scores.cols, 0.0f);
      std::fill(dp + visible, dp + scores.cols, 0.0f);
    }
  });
}

void BackwardRows(const AttentionBackwardArgs& args, int64_t batch, int64_t head, int64_t first,
                  int64_t count, const HeadScratch& scratch, ThreadPool& pool) {
  const AttentionShape& shape = args.shape;
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  const int64_t keys = first + count, row = batch * shape.seq + first;
  const int64_t column = head * shape.head_size;
  const Block q = scratch.q.Rows(count), dq = scratch.dq.Rows(count);
  const Block dout = scratch.dout.Rows(count);
  const Block k = scratch.k.Rows(keys), v = scratch.v.Rows(keys);
  const Block scores = scratch.scores.Rows(count).Packed(keys);
  const Block dscores = scratch.dscores.Rows(count).Packed(keys);
  const float* lse = args.lse.as<float>() + (batch * shape.heads + head) * shape.seq + first;
  Load(args.qkv, row, column, q, pool);
  Load(args.o, row, column, scratch.o.Rows(count), pool);
  Load(args.dout, row, column, dout, pool);
  Multiply(false, true, scale, q, k, 0.0f, scores);
  Multiply(false, true, 1.0f, dout, v, 0.0f, dscores);
  ScoreGradients(scratch, scores, dscores, lse, first, pool);
  Multiply(false, false, scale, dscores, k, 0.0f, dq);
  Multiply(true, false, scale, dscores, q, 1.0f, scratch.dk.Rows(keys));
  Multiply(true, false, 1.0f, scores, dout, 1.0f, scratch.dv.Rows(keys));
  Store(dq, args.dqkv, row, column, pool);
}

}  // namespace

void CpuOps::Attention(const AttentionArgs& args) {
  CheckArgs(args);
  const AttentionShape& shape = args.shape;
  const HeadScratch scratch(shape, Scratch(AttentionScratchFloats(shape), "Attention"));
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      if (head % group == 0) {
        const HeadColumns columns = ColumnsOf(shape, head);
        Load(args.qkv, batch * shape.seq, columns.k, scratch.k, pool_);
        Load(args.qkv, batch * shape.seq, columns.v, scratch.v, pool_);
      }
      for (int64_t first = 0; first < shape.seq; first += kQueryRows) {
        ForwardRows(args, batch, head, first, std::min(kQueryRows, shape.seq - first), scratch,
                    pool_);
      }
    }
  }
}

void CpuOps::AttentionBackward(const AttentionBackwardArgs& args) {
  CheckArgs(args);
  const AttentionShape& shape = args.shape;
  const HeadScratch scratch(shape, Scratch(AttentionScratchFloats(shape), "AttentionBackward"));
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    const int64_t row = batch * shape.seq;
    for (int64_t head = 0; head < shape.heads; ++head) {
      const HeadColumns columns = ColumnsOf(shape, head);
      if (head % group == 0) {
        Load(args.qkv, row, columns.k, scratch.k, pool_);
        Load(args.qkv, row, columns.v, scratch.v, pool_);
        std::fill_n(scratch.dk.data, 2 * shape.seq * shape.head_size, 0.0f);
      }
      for (int64_t first = 0; first < shape.seq; first += kQueryRows) {
        BackwardRows(args, batch, head, first, std::min(kQueryRows, shape.seq - first), scratch,
                     pool_);
      }
      if ((head + 1) % group != 0) continue;
      Store(scratch.dk, args.dqkv, row, columns.k, pool_);
      Store(scratch.dv, args.dqkv, row, columns.v, pool_);
    }
  }
}

}  // namespace coat
