#include "configs/spec/defaults.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>

#include "configs/spec/reader.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: every name below is one of the schema's

// Sets an optional scalar of a message unless it is set.
#define COAT_DEFAULT(message, field, value) \
  if (!(message)->has_##field()) (message)->set_##field(value)

Violations ResolvePreset(ModelSpec* model) {
  if (!model->has_preset()) return {};
  const std::string_view text = PresetYaml(model->preset());
  if (text.empty()) {
    return {{.field = "model.preset",
             .description = "'" + model->preset() + "' is not a preset",
             .suggestion = SuggestWord(model->preset(), PresetNames()),
             .place = ""}};
  }
  ModelSpec resolved;
  Violations faults = ReadYaml(text, "configs/models/" + model->preset() + ".yaml", &resolved);
  resolved.MergeFrom(*model);
  *model = std::move(resolved);
  return faults;
}

void ModelDefaults(bool byte_tokenizer, ModelSpec* model) {
  if (model->has_heads()) COAT_DEFAULT(model, kv_heads, model->heads());
  if (model->has_hidden_size() && model->heads() > 0) {
    COAT_DEFAULT(model, head_size, model->hidden_size() / model->heads());
  }
  if (byte_tokenizer) COAT_DEFAULT(model, vocab_size, 257);
  COAT_DEFAULT(model, tie_embeddings, false);
  COAT_DEFAULT(model, rope_theta, 10000);
  COAT_DEFAULT(model, norm_eps, 1e-5);
  COAT_DEFAULT(model, init_std, 0.02);
}

void DataDefaults(DataSpec* data) {
  if (data->text_size() > 0) COAT_DEFAULT(data, tokenizer, TOKENIZER_BYTE);
  if (data->tokens_size() > 0) COAT_DEFAULT(data, token_format, TOKEN_FORMAT_LLMC);
  COAT_DEFAULT(data, validation_fraction, 0.05);
}

void TrainDefaults(DeviceKind device, TrainSpec* train) {
  COAT_DEFAULT(train, seed, 0);
  COAT_DEFAULT(train, eval_every_steps, 0);
  COAT_DEFAULT(train, eval_sequences, 64);
  COAT_DEFAULT(train, telemetry_every_steps, 50);
  if (device == DEVICE_KIND_CPU) COAT_DEFAULT(train, deterministic, true);
  if (device == DEVICE_KIND_GPU) COAT_DEFAULT(train, deterministic, false);
  COAT_DEFAULT(train, loss_chunk_rows, 4096);
}

void OptimizerDefaults(int64_t steps, OptimizerSpec* optimizer) {
  if (optimizer->has_lr()) COAT_DEFAULT(optimizer, min_lr, optimizer->lr() / 10);
  COAT_DEFAULT(optimizer, schedule, SCHEDULE_COSINE);
  COAT_DEFAULT(optimizer, warmup_steps, 0);
  COAT_DEFAULT(optimizer, decay_steps, steps / 10);
  COAT_DEFAULT(optimizer, weight_decay, 0.1);
  COAT_DEFAULT(optimizer, beta1, 0.9);
  COAT_DEFAULT(optimizer, beta2, 0.95);
  COAT_DEFAULT(optimizer, eps, 1e-8);
  COAT_DEFAULT(optimizer, clip_norm, 1.0);
}

void PrecisionDefaults(PrecisionSpec* precision) {
  COAT_DEFAULT(precision, recipe, RECIPE_COAT);
  COAT_DEFAULT(precision, save, SAVE_MODE_LEAN);
  const bool coat = precision->recipe() == RECIPE_COAT;
  COAT_DEFAULT(precision, optimizer_state, coat ? OPTIMIZER_STATE_FP8_DRE : OPTIMIZER_STATE_FP32);
  COAT_DEFAULT(precision, moment_formats, MOMENT_FORMATS_E4M3_E4M3);
  COAT_DEFAULT(precision, master, MASTER_WEIGHTS_FP32);
  COAT_DEFAULT(precision, gradients, GRADIENT_FORMAT_FP32);
  COAT_DEFAULT(precision, fp8_weights, FP8_WEIGHTS_PER_LAYER);
  COAT_DEFAULT(precision, accumulation, ACCUMULATION_PRECISE);
}

}  // namespace

Violations ApplyDefaults(JobSpec* spec) {
  if (spec->api_version().empty()) spec->set_api_version("coatrack/v1");
  Violations faults = ResolvePreset(spec->mutable_model());
  DataDefaults(spec->mutable_data());
  ModelDefaults(spec->data().tokenizer() == TOKENIZER_BYTE, spec->mutable_model());
  COAT_DEFAULT(spec->mutable_resources(), ranks, 1);
  COAT_DEFAULT(spec->mutable_resources(), device, DEVICE_KIND_AUTO);
  TrainDefaults(spec->resources().device(), spec->mutable_train());
  OptimizerDefaults(spec->train().steps(), spec->mutable_optimizer());
  PrecisionDefaults(spec->mutable_precision());
  COAT_DEFAULT(spec->mutable_checkpoint(), root, "default");
  COAT_DEFAULT(spec->mutable_checkpoint(), every_steps, 0);
  COAT_DEFAULT(spec->mutable_checkpoint(), keep, 2);
  COAT_DEFAULT(spec, priority, 0);
  COAT_DEFAULT(spec, max_restarts, 3);
  return faults;
}

#undef COAT_DEFAULT

bool Deterministic(const JobSpec& spec, bool on_cpu) {
  return spec.train().has_deterministic() ? spec.train().deterministic() : on_cpu;
}

int64_t DurationMs(const google::protobuf::Duration& duration) {
  return google::protobuf::util::TimeUtil::DurationToMilliseconds(duration);
}

}  // namespace coat
