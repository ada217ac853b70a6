#include "worker/model/shape.h"

#include <algorithm>
#include <string>

#include "configs/base/error.h"
#include "worker/model/model.h"

namespace coat {
namespace {

int64_t AtLeastOne(const char* field, int64_t value) {
  if (value < 1) {
    throw Error(Code::kInvalidArgument, std::string(field) + ": must be at least 1, is " +
                                            std::to_string(value) +
                                            "; write it, or name a model.preset");
  }
  return value;
}

void Require(bool condition, const char* field, const std::string& fault) {
  if (!condition) throw Error(Code::kInvalidArgument, std::string(field) + ": " + fault);
}

}  // namespace

const char* LinearName(Linear linear) {
  switch (linear) {
    case Linear::kQkv: return "qkv";
    case Linear::kOutput: return "output";
    case Linear::kGateUp: return "gate_up";
    case Linear::kDown: return "down";
  }
  throw Error(Code::kInternal, "LinearName: unknown weight");
}

LinearShape ShapeOf(const ModelShape& shape, Linear linear) {
  switch (linear) {
    case Linear::kQkv: return {shape.qkv_width(), shape.hidden};
    case Linear::kOutput: return {shape.hidden, shape.q_width()};
    case Linear::kGateUp: return {2 * shape.intermediate, shape.hidden};
    case Linear::kDown: return {shape.hidden, shape.intermediate};
  }
  throw Error(Code::kInternal, "ShapeOf: unknown weight");
}

WorkspaceShape ModelShape::workspace() const {
  WorkspaceShape out;
  out.attention = attention();
  out.hidden = hidden;
  out.intermediate = intermediate;
  out.vocab = vocab;
  out.loss_rows = loss_rows;
  return out;
}

ModelShape ResolveShape(const coatrack::v1::JobSpec& spec) {
  const auto& model = spec.model();
  Require(model.family() == coatrack::v1::MODEL_FAMILY_LLAMA, "model.family",
          "is not set; write llama");
  ModelShape shape;
  shape.layers = AtLeastOne("model.layers", model.layers());
  shape.hidden = AtLeastOne("model.hidden_size", model.hidden_size());
  shape.heads = AtLeastOne("model.heads", model.heads());
  shape.kv_heads = AtLeastOne("model.kv_heads", model.kv_heads());
  shape.head_size = AtLeastOne("model.head_size", model.head_size());
  shape.intermediate = AtLeastOne("model.intermediate_size", model.intermediate_size());
  shape.vocab = AtLeastOne("model.vocab_size", model.vocab_size());
  shape.tied = model.tie_embeddings();
  shape.rope_theta = model.rope_theta();
  shape.init_std = model.init_std();
  shape.norm_eps = static_cast<float>(model.norm_eps());
  shape.batch = AtLeastOne("train.micro_batch", spec.train().micro_batch());
  shape.seq = AtLeastOne("train.sequence_length", spec.train().sequence_length());
  shape.loss_rows =
      std::min(AtLeastOne("train.loss_chunk_rows", spec.train().loss_chunk_rows()), shape.tokens());
  Require(shape.heads % shape.kv_heads == 0, "model.kv_heads",
          "must divide model.heads (" + std::to_string(shape.heads) + "), is " +
              std::to_string(shape.kv_heads));
  Require(shape.head_size % 2 == 0, "model.head_size",
          "must be even (rotary pairs), is " + std::to_string(shape.head_size));
  Require(shape.rope_theta > 0, "model.rope_theta", "must be positive");
  return shape;
}

bool IsDeterministic(const coatrack::v1::JobSpec& spec, DeviceType device) {
  return spec.train().has_deterministic() ? spec.train().deterministic()
                                          : device == DeviceType::kCpu;
}

double TrainFlopsPerToken(const coatrack::v1::JobSpec& spec) {
  const ModelShape shape = ResolveShape(spec);
  double weights = static_cast<double>(shape.vocab) * static_cast<double>(shape.hidden);
  for (const Linear linear : kAllLinears) {
    const LinearShape size = ShapeOf(shape, linear);
    weights += static_cast<double>(shape.layers) * static_cast<double>(size.out) *
               static_cast<double>(size.in);
  }
  // QK^T and PV over the causal half: 2 T q forward, twice that backward.
  const double attention = 6.0 * static_cast<double>(shape.layers) *
                           static_cast<double>(shape.seq) * static_cast<double>(shape.q_width());
  return 6.0 * weights + attention;
}

}  // namespace coat
