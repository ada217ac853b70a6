// Every tensor a model needs, by name: parameters, copies of weights, what a microbatch saves for
// its backward, transients with the stages they live in, batch buffers. Pure. memory/plan puts them
// into the plan; the model finds them in the arena under the same names.
//
// Names: "<parameter>.master", ".gradient", ".copy", ".codes", ".codes_transposed", ".f32";
// "layers.<i>.attention_norm.x", ... (saved); "forward.*", "head.*", "backward.*" (transients).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "worker/model/parameters.h"
#include "worker/model/shape.h"
#include "worker/precision/recipe.h"
#include "worker/tensor/tensor.h"

namespace coat {

enum class TensorRole : uint8_t {
  kMaster,  // master weights
  kGradient,
  kWeightCopy,  // BF16 and FP8 copies, their scales
  kSaved,       // written by the forward of a microbatch, read by its backward
  kTransient,   // alive from stage `first` to stage `last` of a microbatch only
  kBuffer,      // batch, tables, counters
};

// Where a microbatch is. The stages between kAttentionNorm and kDown, and those between
// kDownQuantize and kAttentionNormBackward, run once a layer: what a layer hands to the next one
// lives through all of them.
enum class Stage : int {
  kEmbedding,
  kAttentionNorm,
  kQkv,
  kAttention,
  kOutput,
  kMlpNorm,
  kGateUp,
  kSwiglu,
  kDown,
  kFinalNorm,
  kHead,
  kDownQuantize,
  kDownBackward,
  kSwigluBackward,
  kGateUpQuantize,
  kGateUpBackward,
  kMlpNormBackward,
  kOutputQuantize,
  kOutputBackward,
  kAttentionBackward,
  kQkvQuantize,
  kQkvBackward,
  kAttentionNormBackward,
  kEmbeddingBackward,
};

struct TensorDecl {
  std::string name;
  TensorRole role = TensorRole::kBuffer;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t ld = 0;    // elements between rows
  int64_t rows = 0;  // rows of storage, padding included
  Stage first = Stage::kEmbedding, last = Stage::kEmbeddingBackward;  // transients
};

// The scalar of one GEMM weight in a table F32 (layers, kLinears, kScalarStride): "weights.amax",
// "weights.scales", "activations.scales" (its input's), "gradients.scales" (its output gradient's).
Tensor LinearScalar(const Tensor& table, int64_t layer, Linear linear);

// Recipes of all layers. Errors as ResolveLayerRecipe.
std::vector<LayerRecipe> ResolveRecipes(const coatrack::v1::JobSpec& spec);

// BF16 masters are what BF16 GEMMs read; no copy is kept beside them.
bool HasBf16Masters(const coatrack::v1::JobSpec& spec);

// `spec` has defaults applied. Errors: Error(kInvalidArgument) naming the field.
std::vector<TensorDecl> DeclareModel(const coatrack::v1::JobSpec& spec);

// Bytes of storage of a declaration.
int64_t StorageBytes(const TensorDecl& decl);

}  // namespace coat
