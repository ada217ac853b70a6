#include <cblas.h>

#include <algorithm>

#include "worker/ops/check_args.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cpu/rows.h"
#include "worker/ops/cpu/scratch.h"

namespace coat {
namespace {

struct Range {
  int64_t begin = 0, size = 0;
};

// A block of an operand as FP32, for cblas.
struct Panel {
  const float* data = nullptr;
  int64_t ld = 0;
};

template <typename F>
void DecodeRow(const uint8_t* codes, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Fp8Decode<F>(codes[i]);
}

void DecodeTile(const Tensor& x, int64_t row, int64_t col, int64_t n, float* out) {
  switch (x.dtype) {
    case DType::kE4M3: return DecodeRow<E4M3>(At<uint8_t>(x, row, col), n, out);
    case DType::kE5M2: return DecodeRow<E5M2>(At<uint8_t>(x, row, col), n, out);
    default: return LoadTile(x, row, col, n, out);
  }
}

// The part of x that `outer` and `depth` select, in x's own orientation; FP32 stays where it is.
Panel LoadPanel(const Tensor& x, bool transposed, Range outer, Range depth, float* scratch,
                ThreadPool& pool) {
  const Range rows = transposed ? depth : outer, cols = transposed ? outer : depth;
  if (x.dtype == DType::kF32) return {At<float>(x, rows.begin, cols.begin), x.ld};
  pool.ParallelFor(rows.size, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      DecodeTile(x, rows.begin + r, cols.begin, cols.size, scratch + r * cols.size);
    }
  });
  return {scratch, cols.size};
}

void Multiply(const GemmArgs& args, const Panel& a, const Panel& b, Range m, Range n, Range k,
              float beta, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, args.a_transposed ? CblasTrans : CblasNoTrans,
              args.b_transposed ? CblasNoTrans : CblasTrans, static_cast<blasint>(m.size),
              static_cast<blasint>(n.size), static_cast<blasint>(k.size), 1.0f, a.data,
              static_cast<blasint>(a.ld), b.data, static_cast<blasint>(b.ld), beta, c,
              static_cast<blasint>(ldc));
}

// c = product scales (+ c), rounded once.
void StoreProduct(const GemmArgs& args, const float* product, Range m, Range n, ThreadPool& pool) {
  const float a_scale = args.a_scale.empty() ? 1.0f : *args.a_scale.as<float>();
  const float b_scale = args.b_scale.empty() ? 1.0f : *args.b_scale.as<float>();
  pool.ParallelFor(m.size, kRowGrain, [&](int64_t begin, int64_t end) {
    float out[kTile], old[kTile];
    for (int64_t r = begin; r < end; ++r) {
      ForTiles(n.size, [&](int64_t col, int64_t count) {
        const float* row = product + r * n.size + col;
        for (int64_t i = 0; i < count; ++i) out[i] = (row[i] * a_scale) * b_scale;
        if (args.accumulate) {
          LoadTile(args.c, m.begin + r, n.begin + col, count, old);
          for (int64_t i = 0; i < count; ++i) out[i] = old[i] + out[i];
        }
        StoreTile(out, count, args.c, m.begin + r, n.begin + col);
      });
    }
  });
}

}  // namespace

void CpuOps::Gemm(const GemmArgs& args) {
  CheckArgs(args);
  const int64_t m_size = args.c.rows(), n_size = args.c.cols();
  const int64_t k_size = args.a_transposed ? args.a.rows() : args.a.cols();
  const bool direct = args.c.dtype == DType::kF32 && args.a_scale.empty();
  float* a_scratch = Scratch(GemmScratchFloats(), "Gemm");
  float* b_scratch = a_scratch + kGemmOuterBlock * kGemmDepthBlock;
  float* product = b_scratch + kGemmOuterBlock * kGemmDepthBlock;
  for (int64_t mi = 0; mi < m_size; mi += kGemmOuterBlock) {
    const Range m{mi, std::min(kGemmOuterBlock, m_size - mi)};
    Panel a;
    for (int64_t ni = 0; ni < n_size; ni += kGemmOuterBlock) {
      const Range n{ni, std::min(kGemmOuterBlock, n_size - ni)};
      for (int64_t ki = 0; ki < k_size; ki += kGemmDepthBlock) {
        const Range k{ki, std::min(kGemmDepthBlock, k_size - ki)};
        if (ni == 0 || k_size > kGemmDepthBlock) {
          a = LoadPanel(args.a, args.a_transposed, m, k, a_scratch, pool_);
        }
        const Panel b = LoadPanel(args.b, args.b_transposed, n, k, b_scratch, pool_);
        const bool fresh = ki == 0 && !(direct && args.accumulate);
        float* c = direct ? At<float>(args.c, mi, ni) : product;
        Multiply(args, a, b, m, n, k, fresh ? 0.0f : 1.0f, c, direct ? args.c.ld : n.size);
      }
      if (!direct) StoreProduct(args, product, m, n, pool_);
    }
  }
}

}  // namespace coat
