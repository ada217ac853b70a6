// The dimensions a job asks for, read once and checked.
#pragma once

#include <array>
#include <cstdint>

#include "coatrack/v1/job.pb.h"
#include "worker/ops/ops.h"
#include "worker/ops/workspace.h"

namespace coat {

// The four GEMM weights of a block, in the order of the forward.
enum class Linear : uint8_t { kQkv, kOutput, kGateUp, kDown };
inline constexpr int kLinears = 4;
// Elements from one FP32 scalar of a linear to the next: cuBLASLt wants scales at 16 bytes.
inline constexpr int64_t kScalarStride = 4;
inline constexpr std::array<Linear, kLinears> kAllLinears = {Linear::kQkv, Linear::kOutput,
                                                             Linear::kGateUp, Linear::kDown};
const char* LinearName(Linear linear);  // "qkv", "output", "gate_up", "down"

struct ModelShape {
  int64_t layers = 0;
  int64_t hidden = 0;        // d
  int64_t heads = 0;         // h
  int64_t kv_heads = 0;      // divides heads
  int64_t head_size = 0;     // dh, even
  int64_t intermediate = 0;  // f
  int64_t vocab = 0;         // V
  bool tied = false;         // the head is the embedding
  double rope_theta = 0;
  double init_std = 0;
  float norm_eps = 0;
  int64_t batch = 0;      // sequences of a microbatch
  int64_t seq = 0;        // T
  int64_t loss_rows = 0;  // rows of logits at a time, at most the tokens of a microbatch

  int64_t tokens() const { return batch * seq; }  // N
  int64_t q_width() const { return heads * head_size; }
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }
  AttentionShape attention() const { return {batch, seq, heads, kv_heads, head_size}; }
  // What forward and backward need of an operator workspace; nothing for the update.
  WorkspaceShape workspace() const;
};

// (out, in) of a stored GEMM weight.
struct LinearShape {
  int64_t out = 0, in = 0;
};
LinearShape ShapeOf(const ModelShape& shape, Linear linear);

// `spec` has defaults applied. Errors: Error(kInvalidArgument) naming the field that is missing or
// impossible.
ModelShape ResolveShape(const coatrack::v1::JobSpec& spec);

// train.deterministic where written, else true on the CPU alone.
bool IsDeterministic(const coatrack::v1::JobSpec& spec, DeviceType device);

}  // namespace coat
