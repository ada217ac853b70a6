#include "configs/spec/defaults.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "configs/spec/reader.h"
#include "configs/spec/validate.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema

JobSpec Read(const std::string& text) {
  JobSpec spec;
  const Violations faults = ReadYaml(text, "job.yaml", &spec);
  EXPECT_TRUE(faults.empty()) << FormatViolations(faults);
  return spec;
}

TEST(DefaultsTest, SetsWhatTheSchemaSays) {
  JobSpec spec = Read(
      "{name: a, model: {preset: llama-tiny}, data: {text: [a]}, "
      "train: {steps: 100}, optimizer: {lr: 0.01}}");
  ASSERT_TRUE(ApplyDefaults(&spec).empty());
  EXPECT_EQ(spec.api_version(), "coatrack/v1");
  EXPECT_EQ(spec.model().family(), MODEL_FAMILY_LLAMA);
  EXPECT_EQ(spec.model().hidden_size(), 128);
  EXPECT_EQ(spec.model().kv_heads(), 4);
  EXPECT_EQ(spec.model().head_size(), 32);
  EXPECT_EQ(spec.model().vocab_size(), 257);
  EXPECT_FALSE(spec.model().tie_embeddings());
  EXPECT_EQ(spec.model().rope_theta(), 10000);
  EXPECT_EQ(spec.model().norm_eps(), 1e-5);
  EXPECT_EQ(spec.model().init_std(), 0.02);
  EXPECT_EQ(spec.data().tokenizer(), TOKENIZER_BYTE);
  EXPECT_FALSE(spec.data().has_token_format());
  EXPECT_EQ(spec.data().validation_fraction(), 0.05);
  EXPECT_EQ(spec.train().eval_sequences(), 64);
  EXPECT_EQ(spec.train().telemetry_every_steps(), 50);
  EXPECT_EQ(spec.train().loss_chunk_rows(), 4096);
  EXPECT_FALSE(spec.train().has_deterministic());
  EXPECT_DOUBLE_EQ(spec.optimizer().min_lr(), 0.001);
  EXPECT_EQ(spec.optimizer().schedule(), SCHEDULE_COSINE);
  EXPECT_EQ(spec.optimizer().decay_steps(), 10);
  EXPECT_EQ(spec.optimizer().weight_decay(), 0.1);
  EXPECT_EQ(spec.optimizer().beta1(), 0.9);
  EXPECT_EQ(spec.optimizer().beta2(), 0.95);
  EXPECT_EQ(spec.optimizer().eps(), 1e-8);
  EXPECT_EQ(spec.optimizer().clip_norm(), 1);
  EXPECT_EQ(spec.precision().recipe(), RECIPE_COAT);
  EXPECT_EQ(spec.precision().save(), SAVE_MODE_LEAN);
  EXPECT_EQ(spec.precision().optimizer_state(), OPTIMIZER_STATE_FP8_DRE);
  EXPECT_EQ(spec.precision().moment_formats(), MOMENT_FORMATS_E4M3_E4M3);
  EXPECT_EQ(spec.precision().master(), MASTER_WEIGHTS_FP32);
  EXPECT_EQ(spec.precision().gradients(), GRADIENT_FORMAT_FP32);
  EXPECT_EQ(spec.precision().fp8_weights(), FP8_WEIGHTS_PER_LAYER);
  EXPECT_EQ(spec.precision().accumulation(), ACCUMULATION_PRECISE);
  EXPECT_EQ(spec.resources().ranks(), 1);
  EXPECT_EQ(spec.resources().device(), DEVICE_KIND_AUTO);
  EXPECT_FALSE(spec.resources().has_threads());
  EXPECT_FALSE(spec.resources().has_time_limit());
  EXPECT_EQ(spec.checkpoint().root(), "default");
  EXPECT_EQ(spec.checkpoint().every_steps(), 0);
  EXPECT_EQ(spec.checkpoint().keep(), 2);
  EXPECT_EQ(spec.priority(), 0);
  EXPECT_EQ(spec.max_restarts(), 3);
}

TEST(DefaultsTest, KeepsWhatIsWritten) {
  JobSpec spec = Read(
      "{model: {preset: llama-8b, layers: 2, heads: 16}, data: {tokens: [a]}, "
      "optimizer: {lr: 1.0, min_lr: 0.0, clip_norm: 0}, priority: 7}");
  ASSERT_TRUE(ApplyDefaults(&spec).empty());
  EXPECT_EQ(spec.model().layers(), 2);
  EXPECT_EQ(spec.model().heads(), 16);
  EXPECT_EQ(spec.model().kv_heads(), 8);
  EXPECT_EQ(spec.model().head_size(), 256);
  EXPECT_EQ(spec.model().vocab_size(), 128256);
  EXPECT_EQ(spec.model().rope_theta(), 500000);
  EXPECT_EQ(spec.data().token_format(), TOKEN_FORMAT_LLMC);
  EXPECT_FALSE(spec.data().has_tokenizer());
  EXPECT_EQ(spec.optimizer().min_lr(), 0);
  EXPECT_EQ(spec.optimizer().clip_norm(), 0);
  EXPECT_EQ(spec.priority(), 7);
}

TEST(DefaultsTest, OptimizerStateFollowsTheRecipe) {
  for (const auto& [recipe, state] : {std::pair{"bf16", OPTIMIZER_STATE_FP32},
                                      {"fp8", OPTIMIZER_STATE_FP32},
                                      {"coat", OPTIMIZER_STATE_FP8_DRE}}) {
    JobSpec spec = Read(std::string("precision: {recipe: ") + recipe + "}");
    ASSERT_TRUE(ApplyDefaults(&spec).empty());
    EXPECT_EQ(spec.precision().optimizer_state(), state) << recipe;
  }
}

TEST(DefaultsTest, DeterminismFollowsTheDevice) {
  JobSpec cpu = Read("resources: {device: cpu}"), gpu = Read("resources: {device: gpu}");
  JobSpec any = Read("name: a"), written = Read("train: {deterministic: true}");
  for (JobSpec* spec : {&cpu, &gpu, &any, &written}) ASSERT_TRUE(ApplyDefaults(spec).empty());
  EXPECT_TRUE(cpu.train().deterministic());
  EXPECT_TRUE(gpu.train().has_deterministic());
  EXPECT_FALSE(gpu.train().deterministic());
  EXPECT_TRUE(Deterministic(any, true));
  EXPECT_FALSE(Deterministic(any, false));
  EXPECT_TRUE(Deterministic(written, false));
}

TEST(DefaultsTest, IsIdempotent) {
  JobSpec once = Read("{name: a, model: {preset: llama-7b}, data: {text: [a]}, train: {steps: 5}}");
  ASSERT_TRUE(ApplyDefaults(&once).empty());
  JobSpec twice = once;
  ASSERT_TRUE(ApplyDefaults(&twice).empty());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(once, twice));
}

TEST(DefaultsTest, UnknownPresetIsRefusedWithTheNearest) {
  JobSpec spec = Read("model: {preset: lama-tiny}");
  const Violations faults = ApplyDefaults(&spec);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(FormatViolation(faults[0]),
            "model.preset: 'lama-tiny' is not a preset; write 'llama-tiny'");
}

// Weights of a Llama: what the names of the presets promise.
int64_t Parameters(const ModelSpec& m) {
  const int64_t q = m.heads() * m.head_size(), kv = m.kv_heads() * m.head_size();
  const int64_t attention = m.hidden_size() * (2 * q + 2 * kv);
  const int64_t layer =
      attention + 3 * m.hidden_size() * m.intermediate_size() + 2 * m.hidden_size();
  const int64_t embedding = m.vocab_size() * m.hidden_size();
  return m.layers() * layer + m.hidden_size() + embedding * (m.tie_embeddings() ? 1 : 2);
}

TEST(DefaultsTest, PresetsHaveTheSizesTheirNamesPromise) {
  const std::map<std::string, int64_t> expected = {
      {"llama-tiny", 869'760},     {"llama-10m", 10'082'240},    {"llama-125m", 123'551'232},
      {"llama-1b", 1'100'048'384}, {"olmo-1b", 1'279'854'592},   {"llama-7b", 6'738'415'616},
      {"llama-8b", 8'030'261'248}, {"llama-13b", 13'015'864'320}};
  ASSERT_EQ(PresetNames().size(), expected.size());
  for (const std::string& name : PresetNames()) {
    JobSpec spec;
    spec.mutable_model()->set_preset(name);
    ASSERT_TRUE(ApplyDefaults(&spec).empty()) << name;
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(Parameters(spec.model()), expected.at(name)) << name;
  }
  EXPECT_TRUE(PresetYaml("nothing").empty());
}

TEST(DefaultsTest, DaemonDefaults) {
  ServerConfig server;
  ApplyDefaults(&server);
  EXPECT_EQ(server.listen(), "127.0.0.1:7070");
  EXPECT_EQ(DurationMs(server.lease()), 15'000);
  EXPECT_EQ(DurationMs(server.lost_after()), 60'000);
  EXPECT_EQ(DurationMs(server.retention()), 720 * 3'600'000ll);
  EXPECT_EQ(server.queue_limit(), 100'000);
  EXPECT_TRUE(ValidateServerConfig(server).empty());
  WorkerConfig worker;
  worker.set_data_root("/data");
  ApplyDefaults(&worker);
  EXPECT_FALSE(worker.name().empty());
  EXPECT_EQ(worker.reserve_bytes(), 671'088'640);
  EXPECT_EQ(worker.cpu_slots(), 1);
  EXPECT_FALSE(worker.has_trainer_path());
  EXPECT_TRUE(ValidateWorkerConfig(worker).empty());
  EXPECT_NE(ExpandHome("~/x")[0], '~');
  EXPECT_EQ(ExpandHome("/a/~"), "/a/~");
  EXPECT_EQ(ExpandHome("~other/x"), "~other/x");
}

}  // namespace
}  // namespace coat
