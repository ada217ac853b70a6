#include "configs/spec/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/spec/defaults.h"
#include "configs/spec/load.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::HasSubstr;

constexpr const char* kGoodJob = R"(name: tiny
model: {preset: llama-tiny}
data: {text: ["corpus/*.txt"]}
train: {steps: 100, sequence_length: 128, global_batch: 4, micro_batch: 2}
optimizer: {lr: 0.003}
resources: {ranks: 2}
)";

TEST(ValidateTest, AcceptsAGoodJob) {
  LoadedJob job;
  const Violations faults = LoadJobText(kGoodJob, "job.yaml", {}, &job);
  EXPECT_TRUE(faults.empty()) << FormatViolations(faults);
  EXPECT_EQ(MicrobatchesPerStep(job.spec), 1);
  EXPECT_FALSE(job.written.has_priority());
  EXPECT_TRUE(job.spec.has_priority());
}

// A change of the good job, and the line that says what is wrong with it.
struct BadJob {
  const char* name;
  std::vector<std::string> changes;
  const char* message;
};

void PrintTo(const BadJob& bad, std::ostream* out) { *out << bad.name; }

class ValidateRefusesTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(ValidateRefusesTest, NamesFieldAndRemedy) {
  LoadedJob job;
  const Violations faults = LoadJobText(kGoodJob, "job.yaml", GetParam().changes, &job);
  ASSERT_EQ(faults.size(), 1u) << FormatViolations(faults);
  EXPECT_EQ(FormatViolation(faults[0]), GetParam().message);
}

const BadJob kBadJobs[] = {
    {"ApiVersion",
     {"api_version=coatrack/v2"},
     "command line: api_version: 'coatrack/v2' is not known; write coatrack/v1"},
    {"Name",
     {"name=Tiny"},
     "command line: name: 'Tiny' is not a name; use at most 63 lower-case letters, digits, '-' and "
     "'.', with a letter or digit at both ends"},
    {"Steps",
     {"train.steps=0"},
     "command line: train.steps: is 0; write a number from 1 to 1000000000"},
    {"Batch",
     {"train.global_batch=6"},
     "command line: train.global_batch: is 6, not a multiple of micro_batch 2 x ranks "
     "2 = 4; write 4 or 8, or another micro_batch or number of ranks"},
    {"BatchBelowOneMicrobatch",
     {"train.global_batch=3"},
     "command line: train.global_batch: is 3, not a multiple of micro_batch 2 x ranks "
     "2 = 4; write 4, or another micro_batch or number of ranks"},
    {"Bf16Gradients",
     {"train.global_batch=8", "precision.gradients=bf16"},
     "command line: precision.gradients: bf16 loses 1-2 % over the 2 microbatches of "
     "a step; write fp32, or global_batch: 4 for one microbatch a step"},
    {"KvHeads",
     {"model.kv_heads=3"},
     "command line: model.kv_heads: is 3, which does not divide heads 4; write a divisor "
     "of 4"},
    {"HeadSize",
     {"model.head_size=33"},
     "command line: model.head_size: is 33, which is odd; write an even number; the "
     "rotary embedding turns pairs"},
    {"Vocabulary",
     {"model.vocab_size=256"},
     "command line: model.vocab_size: is 256, but bytes need 257 tokens; write 257 or "
     "more"},
    {"TextAndTokens",
     {"data.tokens=[a]", "data.token_format=llmc"},
     "job.yaml:3: data: has both text and tokens; write either text: [files] or tokens: [files]"},
    {"AbsolutePath",
     {"data.text=[/etc/passwd]"},
     "command line: data.text[0]: '/etc/passwd' is not relative; write it relative to the "
     "worker's data_root"},
    {"ParentPath",
     {"data.text=[a/../../b]"},
     "command line: data.text[0]: 'a/../../b' leaves the data_root by '..'; write a path below "
     "the worker's data_root"},
    {"LearningRate",
     {"optimizer.lr=0"},
     "command line: optimizer.lr: is 0.0; write a number above 0.0 to 10.0"},
    {"MinLearningRate",
     {"optimizer.min_lr=0.1"},
     "command line: optimizer.min_lr: is above lr; write at most the value of lr"},
    {"Warmup",
     {"optimizer.warmup_steps=101"},
     "command line: optimizer.warmup_steps: is 101, more than the 100 steps of "
     "the job; write at most 100"},
    {"Decay",
     {"optimizer.schedule=wsd", "optimizer.warmup_steps=50", "optimizer.decay_steps=51"},
     "command line: optimizer.decay_steps: and warmup_steps together are more than "
     "the 100 steps; write at most 50"},
    {"Beta",
     {"optimizer.beta1=1.0"},
     "command line: optimizer.beta1: is 1.0; write a number from 0.0 to 0.99999"},
    {"MomentFormats",
     {"precision.recipe=bf16", "precision.moment_formats=e4m3_e5m2"},
     "command line: precision.moment_formats: is about FP8 states, but "
     "optimizer_state is not FP8; remove it, or write optimizer_state: fp8_dre"},
    {"OverrideLayer",
     {"precision.overrides=[{layer: 4, recipe: bf16}]"},
     "command line: precision.overrides[0].layer: '4' is not a layer of this model; "
     "write first, last or a number from 0 to 3"},
    {"OverrideRecipe",
     {"precision.overrides=[{layer: last}]"},
     "command line: precision.overrides[0].recipe: is required; write bf16, fp8 or "
     "coat"},
    {"OverrideTwice",
     {"precision.overrides=[{layer: first, recipe: bf16}, {layer: 0, recipe: fp8}]"},
     "command line: precision.overrides[1].layer: names layer 0 a second time; keep "
     "one entry a layer"},
    {"Ranks",
     {"resources.ranks=0"},
     "command line: resources.ranks: is 0; write a number from 1 to 4096"},
    {"TimeLimit",
     {"resources.time_limit=10ms"},
     "command line: resources.time_limit: is outside 1s to 8784h; write a duration "
     "such as 30m or 48h"},
    {"Root",
     {"checkpoint.root=../x"},
     "command line: checkpoint.root: '../x' is not a root's name; write the name of a "
     "storage root of the workers, such as default"},
    {"Keep",
     {"checkpoint.keep=0"},
     "command line: checkpoint.keep: is 0; write a number from 1 to 1000"},
    {"LabelKey",
     {"labels.a!=b"},
     "command line: labels.a!: is not a label's name; use at most 63 letters, digits and -_./ "
     "with a letter or digit at both ends"},
    {"InitFrom",
     {"init_from.step=5"},
     "command line: init_from.job: '' is not a job id; write the id that 'coat list' "
     "shows"},
};

INSTANTIATE_TEST_SUITE_P(Jobs, ValidateRefusesTest, ::testing::ValuesIn(kBadJobs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ValidateTest, NamesAllThatIsRequired) {
  LoadedJob job;
  const std::string text = FormatViolations(LoadJobText("model: {}", "job.yaml", {}, &job));
  for (const char* part :
       {"name: is required", "model: has neither a preset nor a family",
        "model.hidden_size: is required", "data: names no files", "train.steps: is required",
        "train.sequence_length: is required", "train.global_batch: is required",
        "train.micro_batch: is required", "optimizer.lr: is required"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ValidateTest, ReportsTheLineOfTheFieldOrOfItsParent) {
  LoadedJob job;
  std::string text = kGoodJob;
  text.replace(text.find("steps: 100"), 10, "steps: 000");
  EXPECT_THAT(FormatViolations(LoadJobText(text, "job.yaml", {}, &job)),
              HasSubstr("job.yaml:4: train.steps: "));
  text = kGoodJob;
  text.replace(text.find("steps: 100, "), 12, "");
  EXPECT_EQ(FormatViolations(LoadJobText(text, "job.yaml", {}, &job)),
            "job.yaml:4: train.steps: is required; write a number from 1 to 1000000000");
}

TEST(ValidateTest, RefusesUnknownEnumNumbersFromTheWire) {
  LoadedJob job;
  ASSERT_TRUE(LoadJobText(kGoodJob, "job.yaml", {}, &job).empty());
  job.spec.mutable_precision()->set_recipe(static_cast<Recipe>(99));
  job.spec.mutable_optimizer()->set_schedule(SCHEDULE_UNSPECIFIED);
  EXPECT_EQ(FormatViolations(ValidateJobSpec(job.spec)),
            "optimizer.schedule: has the unknown value 0; known: cosine, linear, wsd, constant\n"
            "precision.recipe: has the unknown value 99; known: bf16, fp8, coat");
}

TEST(ValidateTest, BoundsLabelsAndPaths) {
  LoadedJob job;
  ASSERT_TRUE(LoadJobText(kGoodJob, "job.yaml", {}, &job).empty());
  JobSpec spec = job.spec;
  for (int i = 0; i <= kMaxLabels; ++i) (*spec.mutable_labels())["k" + std::to_string(i)] = "v";
  EXPECT_EQ(FormatViolations(ValidateJobSpec(spec)), "labels: has 33 entries; keep at most 32");
  spec = job.spec;
  for (int i = 0; i < kMaxDataPaths; ++i) spec.mutable_data()->add_text("a");
  EXPECT_THAT(FormatViolations(ValidateJobSpec(spec)), HasSubstr("names more than 1000 paths"));
  spec = job.spec;
  (*spec.mutable_labels())["a"] = std::string(64, 'x');
  EXPECT_THAT(FormatViolations(ValidateJobSpec(spec)), HasSubstr("labels.a: has a value"));
}

TEST(ValidateTest, LargestSizesDoNotOverflow) {
  LoadedJob job;
  const Violations faults =
      LoadJobText(kGoodJob, "job.yaml",
                  {"train.micro_batch=9223372036854775807", "train.sequence_length=1048576"}, &job);
  ASSERT_EQ(faults.size(), 1u) << FormatViolations(faults);
  EXPECT_EQ(faults[0].field, "train.micro_batch");
  EXPECT_THAT(
      FormatViolations(LoadJobText(
          kGoodJob, "job.yaml",
          {"train.micro_batch=2048", "train.sequence_length=1048576", "train.global_batch=4096"},
          &job)),
      HasSubstr("above 2^31 - 1 tokens"));
}

TEST(ValidateTest, Uint16NeedsASmallVocabulary) {
  LoadedJob job;
  const char* text = R"(name: t
model: {preset: llama-tiny, vocab_size: 65537}
data: {tokens: [a.bin], token_format: uint16}
train: {steps: 1, sequence_length: 8, global_batch: 1, micro_batch: 1}
optimizer: {lr: 0.1}
)";
  EXPECT_EQ(FormatViolations(LoadJobText(text, "job.yaml", {}, &job)),
            "job.yaml:3: data.token_format: uint16 cannot hold the ids of a vocabulary of 65537; "
            "write uint32, or a vocabulary of at most 65536");
  EXPECT_TRUE(LoadJobText(text, "job.yaml", {"model.vocab_size=65536"}, &job).empty());
}

TEST(ValidateDaemonsTest, BeyondLoopbackNeedsTheFlag) {
  EXPECT_TRUE(LoadServerConfig("", {"listen=\"127.0.0.9:0\""}).ok());
  EXPECT_TRUE(LoadServerConfig("", {"listen=\"[::1]:7070\""}).ok());
  const auto open = LoadServerConfig("", {"listen=\"0.0.0.0:7070\""});
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.status().message(),
            "command line: listen: '0.0.0.0:7070' is beyond loopback and nothing is encrypted; "
            "use 127.0.0.1, or --insecure-plaintext on a network you trust");
  EXPECT_TRUE(LoadServerConfig("", {"listen=\"0.0.0.0:7070\"", "insecure_plaintext=true"}).ok());
  EXPECT_FALSE(IsLoopback("127.evil.example:1"));
  EXPECT_FALSE(IsLoopback("localhost.example:1"));
  EXPECT_TRUE(IsLoopback("localhost:1"));
}

TEST(ValidateDaemonsTest, RefusesBadValues) {
  const auto message = [](std::vector<std::string> overrides) {
    return LoadServerConfig("", overrides).status().message();
  };
  EXPECT_THAT(message({"listen=here"}), HasSubstr("'here' is not an address"));
  EXPECT_THAT(message({"listen=\"127.0.0.1:70700\""}), HasSubstr("is not an address"));
  EXPECT_THAT(message({"lost_after=1s"}), HasSubstr("lost_after: is shorter than lease"));
  EXPECT_THAT(message({"lease=0s"}), HasSubstr("lease: is outside 1ms to 8784h"));
  EXPECT_THAT(message({"stall_floor=9s"}), HasSubstr("stall_floor: is shorter than twice the 5s"));
  EXPECT_THAT(message({"load_limit=9s"}), HasSubstr("load_limit: is shorter than twice the 5s"));
  EXPECT_TRUE(LoadServerConfig("", {"stall_floor=10s", "load_limit=10s"}).ok());
  EXPECT_THAT(message({"queue_limit=0"}), HasSubstr("queue_limit: is 0"));
  const auto worker =
      LoadWorkerConfig("", {"data_root=/d", "roots=[{name: a, path: /x}, {name: a, path: /y}]"});
  EXPECT_THAT(worker.status().message(), HasSubstr("roots[1].name: 'a' is used twice"));
  EXPECT_THAT(LoadWorkerConfig("").status().message(), HasSubstr("data_root: is required"));
  EXPECT_THAT(LoadClientConfig("", {"server=x"}).status().message(), HasSubstr("server: 'x'"));
}

}  // namespace
}  // namespace coat
