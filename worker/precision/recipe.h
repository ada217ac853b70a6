// What one block computes in which format and keeps for its backward (NUMERICS 3), resolved once
// from the job for every layer. Embedding, final norm, output head and loss are not part of a
// block: they are BF16 and FP32 in every recipe.
#pragma once

#include <cstdint>

#include "coatrack/v1/job.pb.h"
#include "worker/tensor/tensor.h"

namespace coat {

// How an activation of the forward is kept for the backward.
enum class Kept : uint8_t {
  kNothing,  // recomputed from what its producer read
  kBf16,
  kE4M3,   // per-tensor codes, scale kept
  kGroup,  // 1x16 codes and BF16 group scales
};

struct LayerRecipe {
  coatrack::v1::Recipe recipe = coatrack::v1::RECIPE_UNSPECIFIED;
  // Operands of the four GEMMs of a block: E4M3 (fp8, coat) or BF16 (bf16); activations and
  // weights in `operand`, gradients of GEMM outputs in `gradient` (E5M2 or BF16).
  DType operand = DType::kBF16;
  DType gradient = DType::kBF16;
  // Each norm of the block: its input x (kBf16 or kGroup) and its output.
  Kept norm_input = Kept::kBf16;
  Kept norm_output = Kept::kBf16;
  // SwiGLU: gate and up (kBf16 or kGroup; one tensor [gate | up]) and the product.
  Kept gate_up = Kept::kBf16;
  Kept product = Kept::kBf16;
  // qkv after RoPE, attention output and log-sum-exp: BF16, BF16 and FP32 in every recipe.
  // Forward GEMMs may use the tensor cores' short accumulator.
  bool fast_forward = false;

  bool fp8_gemm() const { return operand == DType::kE4M3; }
};

// Recipe of block `layer` of `layers`: the job's, or that of the last override which names the
// layer. `spec` has defaults applied. Save mode belongs to `coat` alone: `bf16` and `fp8` save as
// NUMERICS 3 defines them.
// Errors: Error(kInvalidArgument) for an override that names no layer, or an unset recipe.
LayerRecipe ResolveLayerRecipe(const coatrack::v1::PrecisionSpec& spec, int64_t layer,
                               int64_t layers);

}  // namespace coat
