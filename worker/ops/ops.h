// The contract of every operator. Two implementations with the same file names: ops/cpu (the
// executable definition, NUMERICS.md) and ops/cuda.
//
// Letters: N tokens of a microbatch (batch x seq), d hidden, h heads, hkv key/value heads, dh head
// size, q = h dh, kv = hkv dh, f intermediate, V vocabulary, T sequence length.
//
// Rules for every operator
// - Arguments are views of arena memory; `in`, `out`, `inout` say the direction. Outputs are fully
//   overwritten (padding between `cols` and `ld` with zeros for FP8 operands) unless `inout`.
// - Nothing is allocated; scratch comes from the workspace given to the backend (workspace.h).
// - Asynchronous on the backend's stream. Host scalars are read at the call; host tensors never.
// - FP8 operands of a GEMM have ld = RoundUp(cols, 16) and storage for RoundUp(rows, 16) rows, the
//   padding zero. The operators write the padding columns; padding rows stay as the owner zeroed
//   them. Everything else has ld == cols unless said otherwise. Vectors and group scales are
//   contiguous, in any shape of the right number of elements.
// - Scales are dequantization scales (value = code x scale), FP32 scalars in device memory; those
//   of a GEMM are aligned to 16 bytes.
// - `amax` partials: FP32, one per row, magnitudes; NaN and infinity win (NUMERICS 1).
// - Shape or dtype errors throw Error(kInternal) naming operator and argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "worker/tensor/tensor.h"

namespace coat {

// 1x16 groups of a row share a BF16 scale. `segments` splits a row into equal parts none of whose
// groups straddles a boundary (2 for [gate | up]).
struct GroupQuantized {
  Tensor codes;   // E4M3 (rows, cols)
  Tensor scales;  // BF16 (rows, segments * ceil(cols / segments / 16))
  int segments = 1;
  bool empty() const { return codes.empty(); }
};

// What a non-linear operator reads: exactly one of the two is set.
struct Activation {
  Tensor bf16;        // (rows, cols)
  GroupQuantized q8;  // (rows, cols)
};

// ---- embedding -------------------------------------------------------------------------------
struct EmbeddingArgs {
  Tensor tokens;  // in, I32 (N), 0 <= token < V
  Tensor table;   // in, F32 or BF16 (V, d)
  Tensor out;     // out, BF16 (N, d)
};
struct EmbeddingBackwardArgs {
  Tensor tokens;  // in, I32 (N)
  Tensor order;   // in, I32 (N): positions sorted by (token, position); fixes the order of sums
  Tensor dout;    // in, BF16 (N, d)
  Tensor dtable;  // inout, F32 or BF16 (V, d): += ; summed in FP32 within the call
};

// ---- residual add, 1x16 quantization and norm statistics (NUMERICS 3, rows 1 and 6) -----------
struct AddNormArgs {
  Tensor residual;      // in, BF16 (N, d)
  Tensor branch;        // in, BF16 (N, d), or empty
  Tensor residual_out;  // out, BF16 (N, d) = BF16(residual + branch), sum in FP32; may alias
                        // residual; empty when branch is empty
  GroupQuantized q8;    // out, 1x16 of residual_out, or empty (recipes bf16 and fp8)
  Tensor gamma;         // in, F32 (d)
  Tensor rstd;          // out, F32 (N) = 1/sqrt(mean x^2 + eps), x = dequantized q8 if q8 is set
  Tensor amax;          // out, F32 (N) = max |(x rstd) gamma| a row, or empty
  float eps = 1e-5f;
};

// y = ((x) rstd) gamma in FP32, x = c s for q8. E4M3: code of y with the given scale.
struct NormApplyArgs {
  Activation x;           // in (N, d)
  Tensor rstd;            // in, F32 (N)
  Tensor gamma;           // in, F32 (d)
  Tensor scale;           // in, F32 (1) for E4M3 outputs, else empty
  Tensor out;             // out, E4M3 or BF16 (N, d), or empty
  Tensor out_transposed;  // out, E4M3 (d, N), or empty; both outputs carry the same codes
};
struct NormBackwardArgs {
  Tensor dy;             // in, BF16 (N, d): gradient of y
  Activation x;          // in (N, d)
  Tensor rstd;           // in, F32 (N)
  Tensor gamma;          // in, F32 (d)
  Tensor dresidual;      // in, BF16 (N, d): gradient that bypasses the branch, or empty (zero)
  Tensor dresidual_out;  // out, BF16 (N, d) = BF16(dresidual + dx), summed in FP32; may alias
  Tensor dgamma;         // inout, F32 (d): +=, fixed order
  Tensor amax;           // out, F32 (N): largest magnitude of a row of dresidual_out, or empty
};

// ---- scales and per-tensor quantization -----------------------------------------------------
struct AmaxArgs {
  Tensor x;     // in, BF16 or F32 (rows, cols)
  Tensor amax;  // out, F32 (rows)
};
struct AmaxToScaleArgs {
  Tensor amax;                  // in, F32 (any number of partials)
  DType format = DType::kE4M3;  // kE4M3 or kE5M2
  Tensor scale;                 // out, F32 (1)
  Tensor nonfinite;             // inout, I32 (1): set to 1 when a partial is not finite
};
struct QuantizeArgs {
  Tensor x;                 // in, BF16 or F32 (rows, cols)
  Tensor scale;             // in, F32 (1)
  Tensor codes;             // out, E4M3 or E5M2 (rows, cols), or empty
  Tensor codes_transposed;  // out, same format (cols, rows), or empty
};
struct TransposeArgs {
  Tensor x;    // in, E4M3 or E5M2 (rows, cols)
  Tensor out;  // out, same format (cols, rows)
};
struct CastArgs {
  Tensor x;    // in, F32 or BF16
  Tensor out;  // out, BF16 or F32, same number of elements; round to nearest even
};

// ---- GEMM -------------------------------------------------------------------------------------
// c(m, n) = a(m, k) b(n, k)^T, scaled by both scales; FP32 accumulation. FP8 operands are stored
// along k as written. BF16 and F32 operands may be stored the other way round (`*_transposed`:
// stored (k, m) or (k, n)).
struct GemmArgs {
  Tensor a;        // in, E4M3, E5M2, BF16 or F32
  Tensor a_scale;  // in, F32 (1) for FP8, else empty
  Tensor b;        // in
  Tensor b_scale;  // in
  Tensor c;        // out, BF16 or F32 (m, n); inout when accumulate (a BF16 sum is rounded
                   // once on the CPU, on CUDA the product may be rounded before it is added)
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  bool fast_accumulation = false;  // CUDA, FP8 only: the tensor cores' short accumulator
};

// ---- rotary embedding and attention -----------------------------------------------------------
struct AttentionShape {
  int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_size = 0;
  int64_t tokens() const { return batch * seq; }
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }
};
// Rotate-half pairs (i, i + dh/2) of every head of q and k; FP32, result BF16, in place.
struct RopeArgs {
  AttentionShape shape;
  Tensor qkv;             // inout, BF16 (N, q + 2 kv): [q | k | v]
  Tensor cos;             // in, F32 (T, dh / 2)
  Tensor sin;             // in, F32 (T, dh / 2)
  bool backward = false;  // rotates by the negative angle
  Tensor amax;            // out, F32 (N) over the whole row, v included, or empty
};
struct AttentionArgs {  // causal, scale 1/sqrt(dh), FP32 softmax
  AttentionShape shape;
  Tensor qkv;  // in, BF16 (N, q + 2 kv), after RoPE
  Tensor o;    // out, BF16 (N, q)
  Tensor lse;  // out, F32 (batch, h, T): log-sum-exp, natural
};
struct AttentionBackwardArgs {
  AttentionShape shape;
  Tensor qkv, o, lse;  // in, as above
  Tensor dout;         // in, BF16 (N, q)
  Tensor dqkv;         // out, BF16 (N, q + 2 kv), before the RoPE backward
  bool deterministic = false;
};

// ---- SwiGLU (NUMERICS 3, rows 8 and 9) --------------------------------------------------------
struct GateUpQuantizeArgs {
  Tensor gate_up;     // in, BF16 (N, 2 f): [gate | up]
  GroupQuantized q8;  // out, segments 2, or empty
  Tensor amax;        // out, F32 (N): max |silu(gate) up| of the (dequantized) values, or empty
};
struct SwigluArgs {       // y = silu(gate) up in FP32
  Activation gate_up;     // in (N, 2 f)
  Tensor scale;           // in, F32 (1) for E4M3 outputs, else empty
  Tensor out;             // out, E4M3 or BF16 (N, f), or empty
  Tensor out_transposed;  // out, E4M3 (f, N), or empty
};
struct SwigluBackwardArgs {
  Activation gate_up;  // in (N, 2 f)
  Tensor dy;           // in, BF16 (N, f)
  Tensor dgate_up;     // out, BF16 (N, 2 f)
  Tensor amax;         // out, F32 (N) over the row of dgate_up, or empty
};

// ---- loss ---------------------------------------------------------------------------------------
// Rows with target < 0 are ignored: zero gradient, zero nll. Columns of dlogits between V and ld
// are written with zeros, so that a padded V may be a contraction size.
struct CrossEntropyArgs {
  Tensor logits;         // in, BF16 or F32 (rows, V), ld >= V; columns >= V are never read
  Tensor targets;        // in, I32 (rows)
  Tensor inverse_count;  // in, F32 (1): 1 / M, M = valid targets of the whole global batch
  Tensor dlogits;        // out, BF16 (rows, V) = (softmax - onehot) / M, or empty; may alias logits
  Tensor nll;            // out, F32 (rows)
};
struct SumArgs {
  Tensor x;    // in, F32
  Tensor out;  // inout, F32 (1): +=, fixed order, pairwise
};

// ---- optimizer (NUMERICS 4 and 5) -------------------------------------------------------------

// Lives in device memory; CPU and CUDA read and write it in place.
struct StepState {
  float grad_norm = 0;    // out of GradNorm, before clipping
  float clip_factor = 1;  // min(1, clip / (norm + 1e-6)); 1 when clip is 0
  int32_t apply = 0;      // 1: finite and at least one valid target
  int32_t t = 0;          // applied updates so far; AdamW increments it when apply is 1
  float update_sq = 0;    // sum of squared updates of the last applied step (telemetry)
  float weight_sq = 0;    // sum of squared weights after it
};

enum class MomentStorage : uint8_t { kFp8Dre, kFp8, kBf16, kF32 };

// One moment of one stored tensor of P elements, G = ceil(P / 128) groups.
struct Moment {
  Tensor values;  // inout, E4M3 / E5M2 / BF16 / F32 (P)
  Tensor amax;    // inout, F32 (G); kFp8Dre: a; kFp8: the group's scale; else empty
  Tensor k16;     // inout, U16 (G); kFp8Dre only: 16 k
};
struct AdamWTensor {
  Tensor param;  // inout, F32, or BF16 for stochastic rounding (P)
  Tensor grad;   // in, F32 or BF16 (P)
  Moment m, v;   // inout
  Tensor copy;   // out, BF16 (P): rounded copy of the new weights (recipe bf16), or empty
  Tensor amax;   // out, F32 (1): largest magnitude of the new weights, or empty
  bool decay = true;
  uint32_t id = 0;             // Philox counter, stable over world sizes
  int64_t element_offset = 0;  // of this shard in the stored tensor; a multiple of 128
};
struct AdamWArgs {
  std::span<const AdamWTensor> tensors;
  MomentStorage storage = MomentStorage::kFp8Dre;
  float lr = 0, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0.1f;
  uint64_t seed = 0;  // stochastic rounding
  Tensor state;       // inout, U8 (sizeof(StepState)); nothing changes when apply is 0
};
struct GradNormArgs {
  std::span<const Tensor> grads;  // in, F32 or BF16
  Tensor nonfinite;      // in, I32 (1), set by AmaxToScale: reduced over ranks by the caller
  Tensor inverse_count;  // in, F32 (1); 0: no valid target in the global batch
  float clip_norm = 0;
  Tensor state;  // inout, U8 (sizeof(StepState)): grad_norm, clip_factor, apply
};

// ---- telemetry (NUMERICS 7) -------------------------------------------------------------------
// Adds to six counters: values, non-zero values, saturated codes (those of F_max, of infinity and
// of NaN), flushed codes (x != 0, code 0), sum of squared errors, sum of squares (both over finite
// values).
struct MeasureArgs {
  Tensor x;      // in, BF16 or F32 (rows, cols)
  Tensor scale;  // in, F32 (1): per tensor; empty: 1x16 groups
  DType format = DType::kE4M3;
  int segments = 1;
  Tensor counters;  // inout, F32 (6)
};

// A place in the order of what was queued on a device. Thread-compatible; gone before its backend.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual void Set() = 0;   // behind all that was queued so far; set again, it moves there
  virtual void Wait() = 0;  // until the device has passed it; at once when it was never set
  // Device time since `earlier`, of the same backend; both were set and waited for.
  virtual double SecondsSince(const Mark& earlier) const = 0;
};

// Operators in the order in which a function queued them. Thread-compatible; gone before its
// backend.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void Replay() = 0;  // queues them again: same arguments, same memory
  // Of the device: kernels, copies, fills. 0: replaying calls the function again.
  virtual int64_t operations() const = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual DeviceType device() const = 0;
  // Scratch for all operators, from the arena; at least WorkspaceBytes (workspace.h).
  virtual void SetWorkspace(const Tensor& workspace) = 0;

  virtual void Embedding(const EmbeddingArgs&) = 0;
  virtual void EmbeddingBackward(const EmbeddingBackwardArgs&) = 0;
  virtual void AddNorm(const AddNormArgs&) = 0;
  virtual void NormApply(const NormApplyArgs&) = 0;
  virtual void NormBackward(const NormBackwardArgs&) = 0;
  virtual void Amax(const AmaxArgs&) = 0;
  virtual void AmaxToScale(const AmaxToScaleArgs&) = 0;
  virtual void Quantize(const QuantizeArgs&) = 0;
  virtual void Transpose(const TransposeArgs&) = 0;
  virtual void Cast(const CastArgs&) = 0;
  virtual void Gemm(const GemmArgs&) = 0;
  virtual void Rope(const RopeArgs&) = 0;
  virtual void Attention(const AttentionArgs&) = 0;
  virtual void AttentionBackward(const AttentionBackwardArgs&) = 0;
  virtual void GateUpQuantize(const GateUpQuantizeArgs&) = 0;
  virtual void Swiglu(const SwigluArgs&) = 0;
  virtual void SwigluBackward(const SwigluBackwardArgs&) = 0;
  virtual void CrossEntropy(const CrossEntropyArgs&) = 0;
  virtual void Sum(const SumArgs&) = 0;
  virtual void GradNorm(const GradNormArgs&) = 0;
  virtual void AdamW(const AdamWArgs&) = 0;
  virtual void Measure(const MeasureArgs&) = 0;

  // Memory. Copies are ordered with the operators; ToHost is complete after Synchronize. All four
  // move the storage of a view, bytes() of it with the padding of its rows; not for Columns views.
  virtual void Zero(const Tensor& x) = 0;
  virtual void Copy(const Tensor& from, const Tensor& to) = 0;  // same device, same bytes
  virtual void ToDevice(const void* host, const Tensor& to) = 0;
  virtual void ToHost(const Tensor& from, void* host) = 0;
  virtual void Synchronize() = 0;

  // What waits for one step without waiting for the next. Here: for a backend whose operators are
  // complete on return.
  virtual std::unique_ptr<Mark> CreateMark();

  // Records what `body` queues; only Replay queues it. `body` calls operators, Zero and Copy alone,
  // has run as it is before (plans are made then), and stays valid as long as the recording.
  // Error(kFailedPrecondition) saying why when the device cannot record it; nothing is queued then.
  // Here: replaying calls `body`, for a backend whose operators are complete on return.
  virtual std::unique_ptr<Recording> Record(std::function<void()> body);

  // Host memory that the device reads and writes without making the host wait: what ToDevice was
  // given there must not change, and what ToHost was given is not there, until Synchronize or the
  // wait for a Mark behind it. Error(kOutOfDeviceMemory) when the host refuses it.
  virtual std::shared_ptr<std::byte> HostBuffer(int64_t bytes);

  virtual std::string device_name() const { return "cpu"; }  // the maker's model name
  virtual void* stream() const { return nullptr; }  // cudaStream_t of all operators; null: none
  // Bytes in use on the device by whatever process; nothing where memory is the host's.
  virtual std::optional<int64_t> device_used_bytes() const { return std::nullopt; }
};

// `device`: "cpu", or "cuda:<uuid or index>". `threads`: CPU threads (>= 1), or host helpers.
// Errors: kFailedPrecondition when the device does not exist here or was not compiled in.
std::unique_ptr<Ops> CreateOps(const std::string& device, int threads);

}  // namespace coat
