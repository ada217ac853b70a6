#include "configs/spec/validate.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "configs/spec/checker.h"
#include "configs/spec/defaults.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: every name below is one of the schema's
using Lowest = NumberRule::Lowest;
using Presence = NumberRule::Presence;

constexpr double kMaxRows = 2147483647;  // positions of a microbatch are 32-bit

constexpr NumberRule kNumberRules[] = {
    {"model.hidden_size", 1, 1 << 17, Presence::kRequired},
    {"model.layers", 1, 1024, Presence::kRequired},
    {"model.heads", 1, 1024, Presence::kRequired},
    {"model.kv_heads", 1, 1024},
    {"model.head_size", 2, 1024},
    {"model.intermediate_size", 1, 1 << 20, Presence::kRequired},
    {"model.vocab_size", 2, 1 << 24, Presence::kRequired},
    {"model.rope_theta", 1, 1e12},
    {"model.norm_eps", 0, 1, Presence::kOptional, Lowest::kExcluded},
    {"model.init_std", 0, 10, Presence::kOptional, Lowest::kExcluded},
    {"data.validation_fraction", 0, 0.5},
    {"train.steps", 1, 1e9, Presence::kRequired},
    {"train.sequence_length", 1, 1 << 20, Presence::kRequired},
    {"train.global_batch", 1, 1 << 24, Presence::kRequired},
    {"train.micro_batch", 1, 1 << 20, Presence::kRequired},
    {"train.eval_every_steps", 0, 1e9},
    {"train.eval_sequences", 1, 1e7},
    {"train.telemetry_every_steps", 0, 1e9},
    {"train.loss_chunk_rows", 1, 1 << 20},
    {"optimizer.lr", 0, 10, Presence::kRequired, Lowest::kExcluded},
    {"optimizer.min_lr", 0, 10},
    {"optimizer.warmup_steps", 0, 1e9},
    {"optimizer.decay_steps", 0, 1e9},
    {"optimizer.weight_decay", 0, 10},
    {"optimizer.beta1", 0, 0.99999},
    {"optimizer.beta2", 0, 0.9999999},
    {"optimizer.eps", 0, 1, Presence::kOptional, Lowest::kExcluded},
    {"optimizer.clip_norm", 0, 1e9},
    {"resources.ranks", 1, kMaxRanks},
    {"resources.threads", 1, 4096},
    {"checkpoint.every_steps", 0, 1e9},
    {"checkpoint.keep", 1, 1000},
    {"init_from.step", 1, 1e9},
    {"priority", -1'000'000, 1'000'000},
    {"max_restarts", 0, 1000},
};

std::string Text(int64_t value) { return std::to_string(value); }

void CheckIdentity(const JobSpec& spec, Checker* check) {
  check->Require(spec.api_version() == "coatrack/v1", "api_version",
                 "'" + spec.api_version() + "' is not known", "write coatrack/v1");
  check->Require(IsName(spec.name()), "name",
                 spec.name().empty() ? "is required" : "'" + spec.name() + "' is not a name",
                 "use at most 63 lower-case letters, digits, '-' and '.', with a letter or digit "
                 "at both ends");
  check->Labels(spec.labels(), "labels");
  check->Labels(spec.resources().worker_labels(), "resources.worker_labels");
  if (spec.has_init_from()) {
    check->Require(IsName(spec.init_from().job()), "init_from.job",
                   "'" + spec.init_from().job() + "' is not a job id",
                   "write the id that 'coat list' shows");
  }
}

void CheckModel(const ModelSpec& model, Checker* check) {
  check->Require(model.has_family(), "model", "has neither a preset nor a family",
                 "write preset: llama-tiny, or family: llama and the dimensions");
  if (!check->Clean("model")) return;
  check->Require(
      model.heads() % model.kv_heads() == 0, "model.kv_heads",
      "is " + Text(model.kv_heads()) + ", which does not divide heads " + Text(model.heads()),
      "write a divisor of " + Text(model.heads()));
  check->Require(model.head_size() % 2 == 0, "model.head_size",
                 "is " + Text(model.head_size()) + ", which is odd",
                 "write an even number; the rotary embedding turns pairs");
}

void CheckData(const JobSpec& spec, Checker* check) {
  const DataSpec& data = spec.data();
  const bool text = data.text_size() > 0, tokens = data.tokens_size() > 0;
  const bool one =
      check->Require(text != tokens, "data", text ? "has both text and tokens" : "names no files",
                     "write either text: [files] or tokens: [files]");
  check->Require(data.text_size() + data.tokens_size() <= kMaxDataPaths, "data",
                 "names more than 1000 paths", "use globs such as corpus/*.txt");
  for (int i = 0; i < data.text_size(); ++i) {
    check->RelativePath(data.text(i), "data.text[" + Text(i) + "]");
  }
  for (int i = 0; i < data.tokens_size(); ++i) {
    check->RelativePath(data.tokens(i), "data.tokens[" + Text(i) + "]");
  }
  check->Require(!one || !data.has_tokenizer() || !tokens, "data.tokenizer",
                 "is written beside tokens", "remove it; token files need no tokenizer");
  check->Require(!one || !data.has_token_format() || !text, "data.token_format",
                 "is written beside text", "remove it; it describes token files");
  const int64_t vocabulary = spec.model().vocab_size();
  if (!check->Clean("model.vocab_size") || !spec.model().has_vocab_size()) return;
  check->Require(!text || data.tokenizer() != TOKENIZER_BYTE || vocabulary >= 257,
                 "model.vocab_size", "is " + Text(vocabulary) + ", but bytes need 257 tokens",
                 "write 257 or more");
  check->Require(!tokens || data.token_format() != TOKEN_FORMAT_UINT16 || vocabulary <= 65536,
                 "data.token_format",
                 "uint16 cannot hold the ids of a vocabulary of " + Text(vocabulary),
                 "write uint32, or a vocabulary of at most 65536");
}

// The multiples of `unit` next to `value`.
std::string NearMultiples(int64_t value, int64_t unit) {
  const int64_t below = value / unit * unit;
  return below == 0 ? Text(unit) : Text(below) + " or " + Text(below + unit);
}

void CheckBatch(const JobSpec& spec, Checker* check) {
  const TrainSpec& train = spec.train();
  if (!check->Clean("train") || !check->Clean("resources.ranks")) return;
  const double rows =
      static_cast<double>(train.micro_batch()) * static_cast<double>(train.sequence_length());
  check->Require(rows <= kMaxRows, "train.micro_batch",
                 "times sequence_length is above 2^31 - 1 tokens", "write a smaller micro_batch");
  const int64_t unit = train.micro_batch() * spec.resources().ranks();
  const bool divides =
      check->Require(train.global_batch() % unit == 0, "train.global_batch",
                     "is " + Text(train.global_batch()) + ", not a multiple of micro_batch " +
                         Text(train.micro_batch()) + " x ranks " + Text(spec.resources().ranks()) +
                         " = " + Text(unit),
                     "write " + NearMultiples(train.global_batch(), unit) +
                         ", or another micro_batch or number of ranks");
  if (divides && spec.precision().gradients() == GRADIENT_FORMAT_BF16) {
    check->Require(train.global_batch() == unit, "precision.gradients",
                   "bf16 loses 1-2 % over the " + Text(train.global_batch() / unit) +
                       " microbatches of a step",
                   "write fp32, or global_batch: " + Text(unit) + " for one microbatch a step");
  }
}

void CheckOptimizer(const JobSpec& spec, Checker* check) {
  const OptimizerSpec& optimizer = spec.optimizer();
  if (!check->Clean("optimizer") || !check->Clean("train.steps")) return;
  check->Require(optimizer.min_lr() <= optimizer.lr(), "optimizer.min_lr", "is above lr",
                 "write at most the value of lr");
  const int64_t steps = spec.train().steps();
  check->Require(optimizer.warmup_steps() <= steps, "optimizer.warmup_steps",
                 "is " + Text(optimizer.warmup_steps()) + ", more than the " + Text(steps) +
                     " steps of the job",
                 "write at most " + Text(steps));
  if (optimizer.schedule() != SCHEDULE_WSD) return;
  check->Require(optimizer.warmup_steps() + optimizer.decay_steps() <= steps,
                 "optimizer.decay_steps",
                 "and warmup_steps together are more than the " + Text(steps) + " steps",
                 "write at most " + Text(std::max<int64_t>(0, steps - optimizer.warmup_steps())));
}

// Index of an override's layer, or -1 when it names none.
int64_t OverrideLayer(const std::string& layer, int64_t layers) {
  if (layer == "first") return 0;
  if (layer == "last") return layers - 1;
  int64_t index = -1;
  const char* end = layer.data() + layer.size();
  const auto parsed = std::from_chars(layer.data(), end, index);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == end;
  return whole && index >= 0 && index < layers ? index : -1;
}

void CheckPrecision(const JobSpec& spec, Checker* check) {
  const PrecisionSpec& precision = spec.precision();
  const bool fp8_state = precision.optimizer_state() == OPTIMIZER_STATE_FP8_DRE ||
                         precision.optimizer_state() == OPTIMIZER_STATE_FP8;
  check->Require(fp8_state || precision.moment_formats() != MOMENT_FORMATS_E4M3_E5M2,
                 "precision.moment_formats", "is about FP8 states, but optimizer_state is not FP8",
                 "remove it, or write optimizer_state: fp8_dre");
  const int64_t layers = spec.model().layers();
  std::set<int64_t> seen;
  for (int i = 0; i < precision.overrides_size(); ++i) {
    const LayerOverride& override = precision.overrides(i);
    const std::string field = "precision.overrides[" + Text(i) + "]";
    check->Require(override.has_recipe(), field + ".recipe", "is required",
                   "write bf16, fp8 or coat");
    const int64_t layer = OverrideLayer(override.layer(), layers);
    if (check->Require(
            layer >= 0, field + ".layer", "'" + override.layer() + "' is not a layer of this model",
            "write first, last or a number from 0 to " + Text(std::max<int64_t>(0, layers - 1)))) {
      check->Require(seen.insert(layer).second, field + ".layer",
                     "names layer " + Text(layer) + " a second time", "keep one entry a layer");
    }
  }
}

void CheckResources(const JobSpec& spec, Checker* check) {
  constexpr int64_t kMaxTimeLimitMs = int64_t{366} * 24 * 3600 * 1000;
  if (spec.resources().has_time_limit()) {
    const int64_t ms = DurationMs(spec.resources().time_limit());
    check->Require(ms >= 1000 && ms <= kMaxTimeLimitMs, "resources.time_limit",
                   "is outside 1s to 8784h", "write a duration such as 30m or 48h");
  }
  check->Require(IsName(spec.checkpoint().root()), "checkpoint.root",
                 "'" + spec.checkpoint().root() + "' is not a root's name",
                 "write the name of a storage root of the workers, such as default");
}

}  // namespace

Violations ValidateJobSpec(const JobSpec& spec) {
  Checker check;
  check.Numbers(spec, kNumberRules);
  check.Enums(spec, "");
  CheckIdentity(spec, &check);
  CheckModel(spec.model(), &check);
  CheckData(spec, &check);
  CheckBatch(spec, &check);
  CheckOptimizer(spec, &check);
  CheckPrecision(spec, &check);
  CheckResources(spec, &check);
  return check.Take();
}

int64_t MicrobatchesPerStep(const JobSpec& spec) {
  return spec.train().global_batch() / (spec.train().micro_batch() * spec.resources().ranks());
}

}  // namespace coat
