// A Llama-family model written against ops.h: parameters, forward, backward (NUMERICS 3).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/ops/ops.h"

namespace coat {

class Arena;

// One stored tensor. Names are the logical names of checkpoints.
struct Parameter {
  std::string name;            // "layers.0.qkv", "layers.0.attention_norm", "embedding", "head"
  std::vector<int64_t> shape;  // (out, in), or (d) for gains
  bool decay = true;           // false for gains
  uint32_t id = 0;             // position in the list
  Tensor master;               // F32 or BF16
  Tensor grad;                 // F32 or BF16; gains and the head's tensor are always F32
  Tensor copy;                 // BF16: the update must write the rounded new weights; or empty
  Tensor amax;                 // F32 (1): the update must write their largest magnitude; or empty
  bool overwritten = false;    // a step's first microbatch writes grad, so ResetStep leaves it
};

// Names in the arena of what the trainer fills before a microbatch. The addresses are the same in
// every step, so that a microbatch can be recorded once and replayed.
inline constexpr char kBatchTokens[] = "batch.tokens";               // I32 (N)
inline constexpr char kBatchTargets[] = "batch.targets";             // I32 (N)
inline constexpr char kBatchOrder[] = "batch.order";                 // I32 (N)
inline constexpr char kBatchInverseCount[] = "batch.inverse_count";  // F32 (1)

// A microbatch in device memory.
struct Batch {
  Tensor tokens;   // I32 (N)
  Tensor targets;  // I32 (N); -1: ignored
  Tensor order;    // I32 (N): positions sorted by (token, position)
};

Batch BatchBuffers(const Arena& arena);  // the three tensors named above

// Positions sorted by (token, position): the content of Batch::order. Host memory.
std::vector<int32_t> TokenOrder(const std::vector<int32_t>& tokens);

// Per operand kind, six counters (MeasureArgs), filled when telemetry is on: E4M3 operands of
// GEMMs made from activations (attention output), from weights, E5M2 gradients, and 1x16 groups.
enum class Operand : uint8_t { kActivation, kWeight, kGradient, kGroup };
inline constexpr int kOperands = 4;

// Thread-compatible. All memory is the arena's; spec has defaults applied.
class Model {
 public:
  virtual ~Model() = default;
  virtual const std::vector<Parameter>& parameters() const = 0;

  // Fills the master weights from the seed: N(0, init_std), gains 1; residual projections scaled
  // by 1/sqrt(2 layers). The same for any number of ranks and on every device.
  virtual void Initialize(uint64_t seed) = 0;
  // Recomputes whatever is kept of the weights (BF16 copies, largest magnitudes, scales, resident
  // FP8 codes) from the masters: after a load. Initialize does it itself.
  virtual void WeightsChanged() = 0;
  // The same after Optimizer::Step, which has already written Parameter::copy and amax.
  virtual void WeightsUpdated() = 0;

  // Forward and backward of one microbatch; gradients are added. nll and nonfinite accumulate in
  // device scalars (below). `inverse_count`: F32 (1), 1 / valid targets of the global batch.
  // `first_of_step` must be true for the first microbatch after ResetStep: it writes the gradients
  // that are Parameter::overwritten instead of adding to them, and telemetry samples it. Apart from
  // that, work, addresses and host scalars of all microbatches are the same, and without telemetry
  // the host waits for nothing.
  virtual void TrainMicrobatch(const Batch& batch, const Tensor& inverse_count,
                               bool first_of_step) = 0;
  // Called by TrainMicrobatch on its thread until it is set to null: parameters [first, first +
  // count) have got all that this microbatch adds to their gradients, in the order of what was
  // queued. Each parameter comes once a microbatch; the order is the same for every microbatch.
  // For the last microbatch of a step, whose gradients can then travel while others are computed.
  using GradientsReady = std::function<void(int64_t first, int64_t count)>;
  virtual void WatchGradients(GradientsReady ready) = 0;
  // Forward only; adds to nll.
  virtual void EvaluateMicrobatch(const Batch& batch) = 0;

  virtual Tensor nll() const = 0;        // F32 (1): sum of nll since ResetStep
  virtual Tensor nonfinite() const = 0;  // I32 (1)
  virtual void ResetStep() = 0;  // zeroes nll, nonfinite and gradients that are not overwritten
  virtual void SetTelemetry(bool on) = 0;            // switching it on zeroes the counters
  virtual Tensor health(Operand operand) const = 0;  // F32 (8): six counters, scale min, max
};

std::unique_ptr<Model> CreateModel(const coatrack::v1::JobSpec& spec, Ops* ops, Arena* arena);

// 6 x non-embedding parameters + causal attention, times tokens: forward and backward FLOPs.
double TrainFlopsPerToken(const coatrack::v1::JobSpec& spec);

}  // namespace coat
