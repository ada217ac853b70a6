#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/device.cuh"
#include "worker/ops/cuda/views.h"

namespace coat {
namespace {

template <bool kWhole, typename Value>
__global__ void EmbeddingKernel(const int32_t* tokens, const Value* table, uint16_t* out,
                                int64_t cols) {
  const int64_t row = blockIdx.x;
  const Value* from = table + static_cast<int64_t>(tokens[row]) * cols;
  for (int64_t col = threadIdx.x * kGroup; col < cols; col += blockDim.x * kGroup) {
    const int n = GroupCount<kWhole>(cols - col);
    StoreGroup<kWhole>(LoadGroup<kWhole>(from + col, n), out + row * cols + col, n);
  }
}

// Sorted positions are cut into chunks. A chunk sums each run of equal tokens; a run that lies
// inside one chunk goes straight to the table, a piece of a longer run to the chunk's `head`
// (began earlier) or `tail` (goes on later; a piece that does both counts as head).
struct EmbeddingBackwardPointers {
  const int32_t* tokens;
  const int32_t* order;
  const uint16_t* dout;
  float* pieces;  // (chunks, 2, cols)
  int64_t count;
  int64_t cols;
};

template <typename Value>
__device__ inline void AddTo(Value* to, float x) {
  if constexpr (sizeof(Value) == 4) {
    *to += x;
  } else {
    *to = Bf16Bits(FloatFromBf16(*to) + x);
  }
}

template <typename Value>
__global__ void EmbeddingChunkKernel(EmbeddingBackwardPointers p, Value* table) {
  const int64_t first = blockIdx.x * static_cast<int64_t>(kEmbeddingChunk);
  const int64_t last = min(p.count, first + kEmbeddingChunk);
  const int64_t col = blockIdx.y * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (col >= p.cols) return;
  const auto token_at = [&](int64_t i) {
    return i < 0 || i >= p.count ? -1 : p.tokens[p.order[i]];
  };
  float sum = 0;
  int64_t run_start = first;
  for (int64_t i = first; i < last; ++i) {
    sum += FloatFromBf16(p.dout[static_cast<int64_t>(p.order[i]) * p.cols + col]);
    const int token = token_at(i);
    const bool run_ends = token_at(i + 1) != token;
    if (!run_ends && i + 1 < last) continue;
    const bool began_earlier = run_start == first && token_at(first - 1) == token;
    if (began_earlier) {
      p.pieces[(blockIdx.x * 2) * p.cols + col] = sum;
    } else if (!run_ends) {
      p.pieces[(blockIdx.x * 2 + 1) * p.cols + col] = sum;
    } else {
      AddTo(table + static_cast<int64_t>(token) * p.cols + col, sum);
    }
    sum = 0;
    run_start = i + 1;
  }
}

// The chunk in whose tail a long run begins sums its pieces in order.
template <typename Value>
__global__ void EmbeddingRunKernel(EmbeddingBackwardPointers p, Value* table) {
  const int64_t col = blockIdx.y * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t next = (blockIdx.x + 1) * static_cast<int64_t>(kEmbeddingChunk);
  if (col >= p.cols || next >= p.count) return;
  const int token = p.tokens[p.order[next - 1]];
  if (p.tokens[p.order[next]] != token) return;
  const int64_t first = next - kEmbeddingChunk;
  const bool began_earlier =
      first > 0 && p.tokens[p.order[first - 1]] == token && p.tokens[p.order[first]] == token;
  if (began_earlier) return;
  float sum = p.pieces[(blockIdx.x * 2 + 1) * p.cols + col];
  for (int64_t start = next; start < p.count; start += kEmbeddingChunk) {
    if (p.tokens[p.order[start]] != token) break;
    sum += p.pieces[(start / kEmbeddingChunk * 2) * p.cols + col];
  }
  AddTo(table + static_cast<int64_t>(token) * p.cols + col, sum);
}

}  // namespace

void CudaOps::Embedding(const EmbeddingArgs& args) {
  Expect(args.tokens, DType::kI32, "Embedding.tokens");
  Expect(args.out, DType::kBF16, "Embedding.out");
  const int64_t rows = args.out.rows();
  const int64_t cols = args.out.cols();
  if (rows == 0) return;
  const auto launch = [&]<typename Value>(const Value* table) {
    const auto kernel =
        cols % kGroup == 0 ? EmbeddingKernel<true, Value> : EmbeddingKernel<false, Value>;
    kernel<<<static_cast<unsigned>(rows), 128, 0, context_.stream>>>(
        args.tokens.as<int32_t>(), table, args.out.as<uint16_t>(), cols);
  };
  if (args.table.dtype == DType::kF32) {
    launch(args.table.as<float>());
  } else {
    Expect(args.table, DType::kBF16, "Embedding.table");
    launch(args.table.as<uint16_t>());
  }
  CudaCheck(cudaGetLastError(), "Embedding");
}

void CudaOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  Expect(args.dout, DType::kBF16, "EmbeddingBackward.dout");
  Expect(args.order, DType::kI32, "EmbeddingBackward.order");
  const int64_t count = args.dout.rows();
  const int64_t cols = args.dout.cols();
  if (count == 0) return;
  const int64_t chunks = CeilDiv(count, kEmbeddingChunk);
  const EmbeddingBackwardPointers p{args.tokens.as<int32_t>(),
                                    args.order.as<int32_t>(),
                                    args.dout.as<uint16_t>(),
                                    context_.Scratch<float>(chunks * 2 * cols, "EmbeddingBackward"),
                                    count,
                                    cols};
  const dim3 grid(static_cast<unsigned>(chunks), static_cast<unsigned>(CeilDiv(cols, 256)));
  const auto launch = [&](auto* table) {
    EmbeddingChunkKernel<<<grid, 256, 0, context_.stream>>>(p, table);
    EmbeddingRunKernel<<<grid, 256, 0, context_.stream>>>(p, table);
  };
  if (args.dtable.dtype == DType::kF32) {
    launch(args.dtable.as<float>());
  } else {
    Expect(args.dtable, DType::kBF16, "EmbeddingBackward.dtable");
    launch(args.dtable.as<uint16_t>());
  }
  CudaCheck(cudaGetLastError(), "EmbeddingBackward");
}

}  // namespace coat
