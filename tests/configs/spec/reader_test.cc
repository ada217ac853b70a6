#include "configs/spec/reader.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "coatrack/v1/daemon_config.pb.h"
#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using ::testing::HasSubstr;

constexpr const char* kGoodJob = R"(api_version: coatrack/v1
name: tiny
model: {preset: llama-tiny, tie_embeddings: true}
data:
  text: ["corpus/*.txt", plain.txt]
  validation_fraction: 0.05
train: {steps: 1200, seed: 18446744073709551615}
optimizer: {lr: 3.0e-3, eps: 1e-8}
precision:
  recipe: coat
  overrides:
    - {layer: first, recipe: bf16}
    - layer: "3"
      recipe: fp8
resources: {ranks: 2, time_limit: 1h30m, worker_labels: {gpu: h200}}
priority: -5
labels: {team: a, "with space": b}
)";

TEST(ReaderTest, ReadsEveryKindOfField) {
  JobSpec spec;
  const Violations faults = ReadYaml(kGoodJob, "job.yaml", &spec);
  ASSERT_TRUE(faults.empty()) << FormatViolations(faults);
  EXPECT_EQ(spec.name(), "tiny");
  EXPECT_TRUE(spec.model().tie_embeddings());
  EXPECT_EQ(spec.data().text(0), "corpus/*.txt");
  EXPECT_EQ(spec.data().text(1), "plain.txt");
  EXPECT_EQ(spec.train().steps(), 1200);
  EXPECT_EQ(spec.train().seed(), 18446744073709551615u);
  EXPECT_EQ(spec.optimizer().lr(), 3.0e-3);
  EXPECT_EQ(spec.optimizer().eps(), 1e-8);
  EXPECT_EQ(spec.precision().recipe(), coatrack::v1::RECIPE_COAT);
  ASSERT_EQ(spec.precision().overrides_size(), 2);
  EXPECT_EQ(spec.precision().overrides(1).layer(), "3");
  EXPECT_EQ(spec.precision().overrides(1).recipe(), coatrack::v1::RECIPE_FP8);
  EXPECT_EQ(spec.resources().time_limit().seconds(), 5400);
  EXPECT_EQ(spec.resources().worker_labels().at("gpu"), "h200");
  EXPECT_EQ(spec.priority(), -5);
  EXPECT_EQ(spec.labels().at("with space"), "b");
  EXPECT_FALSE(spec.has_max_restarts());
  EXPECT_FALSE(spec.train().has_deterministic());
}

TEST(ReaderTest, ReadsJson) {
  JobSpec spec;
  const Violations faults = ReadYaml(
      R"({"name": "tiny", "train": {"steps": 5, "deterministic": false},
          "precision": {"recipe": "fp8"}, "resources": {"time_limit": "30m"}})",
      "job.json", &spec);
  ASSERT_TRUE(faults.empty()) << FormatViolations(faults);
  EXPECT_EQ(spec.train().steps(), 5);
  EXPECT_TRUE(spec.train().has_deterministic());
  EXPECT_EQ(spec.precision().recipe(), coatrack::v1::RECIPE_FP8);
  EXPECT_EQ(spec.resources().time_limit().seconds(), 1800);
}

TEST(ReaderTest, ReadsTimestampsAndOtherMessages) {
  coatrack::v1::RankExit exit;
  ASSERT_TRUE(ReadYaml("{exit_status: -1, host_oom: true, reason: host_oom, "
                       "time: \"2026-01-31T12:00:00Z\"}",
                       "x", &exit)
                  .empty());
  EXPECT_EQ(exit.exit_status(), -1);
  EXPECT_EQ(exit.reason(), coatrack::v1::REASON_HOST_OOM);
  EXPECT_EQ(exit.time().seconds(), 1769860800);
  coatrack::v1::WorkerConfig worker;
  ASSERT_TRUE(ReadYaml("roots: [{name: a, path: /x}, {name: b, path: /y}]", "w", &worker).empty());
  EXPECT_EQ(worker.roots(1).path(), "/y");
}

struct BadText {
  const char* name;
  const char* text;
  const char* place;
  const char* field;
  const char* description;
  const char* suggestion;
};

void PrintTo(const BadText& bad, std::ostream* out) { *out << bad.name; }

class ReaderRefusesTest : public ::testing::TestWithParam<BadText> {};

TEST_P(ReaderRefusesTest, NamesPlaceFieldAndRemedy) {
  const BadText& bad = GetParam();
  JobSpec spec;
  const Violations faults = ReadYaml(bad.text, "job.yaml", &spec);
  ASSERT_EQ(faults.size(), 1u) << FormatViolations(faults);
  EXPECT_EQ(faults[0].place, bad.place);
  EXPECT_EQ(faults[0].field, bad.field);
  EXPECT_THAT(faults[0].description, HasSubstr(bad.description));
  EXPECT_THAT(faults[0].suggestion, HasSubstr(bad.suggestion));
}

constexpr BadText kBadTexts[] = {
    {"UnknownKey", "name: a\ntrain:\n  step: 5\n", "job.yaml:3", "train.step", "is not a field",
     "write 'steps'"},
    {"UnknownKeyAtTheTop", "nam: a\n", "job.yaml:1", "nam", "is not a field", "write 'name'"},
    {"UnknownKeyFarFromAll", "train: {zzzzzzzzz: 1}\n", "job.yaml:1", "train.zzzzzzzzz",
     "is not a field", "known: steps, sequence_length"},
    {"DuplicateKey", "name: a\npriority: 1\npriority: 2\n", "job.yaml:3", "priority",
     "is written twice", "keep one"},
    {"DuplicateKeyInFlowMap", "train: {steps: 1, steps: 1}\n", "job.yaml:1", "train.steps",
     "is written twice", "keep one"},
    {"DuplicateLabel", "labels:\n  a: x\n  b: x\n  a: y\n", "job.yaml:4", "labels.a",
     "is written twice", "keep one"},
    {"Octal", "train: {steps: 010}\n", "job.yaml:1", "train.steps", "leading zero", "write 10"},
    {"NegativeOctal", "priority: -010\n", "job.yaml:1", "priority", "leading zero", "write 10"},
    {"Hexadecimal", "train: {steps: 0x10}\n", "job.yaml:1", "train.steps", "not a whole number",
     "digits alone"},
    {"NewOctal", "train: {steps: 0o17}\n", "job.yaml:1", "train.steps", "not a whole number",
     "digits alone"},
    {"Underscores", "train: {steps: 1_000}\n", "job.yaml:1", "train.steps", "not a whole number",
     "digits alone"},
    {"QuotedNumber", "train:\n  steps: \"12\"\n", "job.yaml:2", "train.steps", "not a number",
     "remove the quotes"},
    {"QuotedDouble", "optimizer: {lr: '0.1'}\n", "job.yaml:1", "optimizer.lr", "not a number",
     "remove the quotes"},
    {"ExponentForAWholeNumber", "train: {steps: 1e3}\n", "job.yaml:1", "train.steps",
     "not a whole number", "write 1000"},
    {"FractionForAWholeNumber", "train: {steps: 1.5}\n", "job.yaml:1", "train.steps",
     "not a whole number", "digits alone"},
    {"NegativeUnsigned", "train: {seed: -1}\n", "job.yaml:1", "train.seed", "out of range",
     "from 0 to 18446744073709551615"},
    {"TooLargeFor32Bits", "priority: 2147483648\n", "job.yaml:1", "priority", "out of range",
     "to 2147483647"},
    {"TooLargeFor64Bits", "train: {steps: 99999999999999999999}\n", "job.yaml:1", "train.steps",
     "out of range", "to 9223372036854775807"},
    {"NotANumber", "optimizer: {lr: fast}\n", "job.yaml:1", "optimizer.lr", "not a number",
     "3.0e-3"},
    {"NaN", "optimizer: {lr: .nan}\n", "job.yaml:1", "optimizer.lr", "not a finite number",
     "write a number"},
    {"Infinity", "optimizer: {lr: -.inf}\n", "job.yaml:1", "optimizer.lr", "not a finite number",
     "write a number"},
    {"DoubleOverflow", "optimizer: {lr: 1e999}\n", "job.yaml:1", "optimizer.lr", "too large", ""},
    {"DoubleWithLeadingZero", "optimizer: {lr: 00.1}\n", "job.yaml:1", "optimizer.lr",
     "leading zero", "write 0.1"},
    {"YesForABool", "model: {tie_embeddings: yes}\n", "job.yaml:1", "model.tie_embeddings",
     "not true or false", "write true or false"},
    {"QuotedBool", "model: {tie_embeddings: \"true\"}\n", "job.yaml:1", "model.tie_embeddings",
     "not true or false", "without quotes"},
    {"EnumTypo", "precision:\n  recipe: caot\n", "job.yaml:2", "precision.recipe",
     "'caot' is not known", "write 'coat'"},
    {"EnumInCapitals", "precision: {recipe: RECIPE_COAT}\n", "job.yaml:1", "precision.recipe",
     "is not known", "bf16, fp8, coat"},
    {"EnumByNumber", "precision: {recipe: 3}\n", "job.yaml:1", "precision.recipe", "is not known",
     "bf16, fp8, coat"},
    {"EnumUnspecified", "precision: {recipe: unspecified}\n", "job.yaml:1", "precision.recipe",
     "is not known", "bf16, fp8, coat"},
    {"DurationWithoutUnit", "resources: {time_limit: 30}\n", "job.yaml:1", "resources.time_limit",
     "has no unit", "write 30s or 30m"},
    {"DurationWithUnknownUnit", "resources: {time_limit: 30min}\n", "job.yaml:1",
     "resources.time_limit", "is not a duration", "30s, 15m"},
    {"MapForAScalar", "name: {a: b}\n", "job.yaml:1", "name", "is a map, not a text", "a text"},
    {"ListForAScalar", "priority: [1]\n", "job.yaml:1", "priority", "is a list", "whole number"},
    {"ScalarForAMap", "train: 5\n", "job.yaml:1", "train", "not a map of fields", "a map"},
    {"ScalarForAList", "data: {text: corpus.txt}\n", "job.yaml:1", "data.text", "not a list",
     "[a, b]"},
    {"ListForLabels", "labels: [a]\n", "job.yaml:1", "labels", "is a list", "{key: value}"},
    {"NumberForAMessageInAList", "precision: {overrides: [1]}\n", "job.yaml:1",
     "precision.overrides[0]", "not a map of fields", "a map"},
    {"Nothing", "train:\n", "job.yaml:1", "train", "has no value", "remove the key"},
    {"Tilde", "name: ~\n", "job.yaml:1", "name", "has no value", "remove the key"},
    {"VersionAsAText", "labels: {version: 1.10}\n", "job.yaml:1", "labels.version",
     "without quotes", "write \"1.10\""},
    {"TruthAsAText", "labels: {a: no}\n", "job.yaml:1", "labels.a", "without quotes", "\"no\""},
    {"OctalAsAText", "name: 010\n", "job.yaml:1", "name", "without quotes", "\"010\""},
    {"Merge", "train:\n  <<: {steps: 5}\n", "job.yaml:2", "train", "merges", "write the fields"},
    {"Anchor", "train: &a {steps: 5}\n", "job.yaml:1", "", "an anchor", "write the value out"},
    {"Alias", "name: &a x\nlabels: {b: *a}\n", "job.yaml:1", "", "an anchor", "write the value"},
    {"Glob", "data: {text: [*.txt]}\n", "job.yaml:1", "", "not valid YAML", ""},
    {"Tag", "name: !!str 5\n", "job.yaml:1", "", "a tag", "remove the tag"},
    {"SecondDocument", "name: a\n---\nname: b\n", "job.yaml:2", "", "second document",
     "remove '---'"},
    {"Empty", "", "job.yaml:1", "", "is empty", "api_version"},
    {"OnlyComments", "# nothing\n", "job.yaml:1", "", "is empty", "api_version"},
    {"AListAtTheTop", "- name: a\n", "job.yaml:1", "", "is a list", "a map of fields"},
    {"BrokenBracket", "name: a\ntrain: {steps: 5\nlabels: {}\n", "job.yaml:3", "", "not valid YAML",
     "brackets"},
    {"Tab", "train:\n\tsteps: 5\n", "job.yaml:2", "", "not valid YAML", "indentation"},
    {"MapAsAKey", "? {a: b}\n: c\n", "job.yaml:1", "", "a key that is a map", "a name"},
    {"BadUtf8", "name: a\nlabels: {x: \"\xC3\x28\"}\n", "job.yaml:2", "", "not UTF-8", "UTF-8"},
};

INSTANTIATE_TEST_SUITE_P(Texts, ReaderRefusesTest, ::testing::ValuesIn(kBadTexts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ReaderTest, RefusesAnAliasBombQuickly) {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string last = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    text += name + ": &" + name + " [" + last + ", " + last + "]\n";
  }
  JobSpec spec;
  const Violations faults = ReadYaml(text, "job.yaml", &spec);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].description, HasSubstr("an anchor"));
}

TEST(ReaderTest, BoundsSizeNestingAndCount) {
  JobSpec spec;
  const std::string large = "name: " + std::string(kMaxSpecBytes, 'a');
  EXPECT_THAT(FormatViolations(ReadYaml(large, "j", &spec)), HasSubstr("at most 1 MiB"));
  const std::string deep = "name: " + std::string(5000, '[');
  EXPECT_THAT(FormatViolations(ReadYaml(deep, "j", &spec)), HasSubstr("nested deeper"));
  std::string many = "data: {text: [";
  for (int i = 0; i < 120'000; ++i) many += "a,";
  EXPECT_THAT(FormatViolations(ReadYaml(many + "]}", "j", &spec)), HasSubstr("100,000"));
}

TEST(ReaderTest, NamesAllFaultsAtOnceButNotMoreThanFifty) {
  JobSpec spec;
  const Violations faults = ReadYaml("nam: a\ntrain: {steps: x, sed: 1}\n", "job.yaml", &spec);
  EXPECT_EQ(FormatViolations(faults),
            "job.yaml:1: nam: is not a field; write 'name'\n"
            "job.yaml:2: train.steps: 'x' is not a whole number; write digits alone, such as 100\n"
            "job.yaml:2: train.sed: is not a field; write 'seed'");
  std::string text;
  for (int i = 0; i < 200; ++i) text += "key" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(ReadYaml(text, "job.yaml", &spec).size(), 50u);
}

TEST(PlacesTest, FindsTheNearestFieldThatWasWritten) {
  JobSpec spec;
  Places places;
  ASSERT_TRUE(ReadYaml(kGoodJob, "job.yaml", &spec, &places).empty());
  EXPECT_EQ(places.Find("train.steps"), "job.yaml:7");
  EXPECT_EQ(places.Find("train.micro_batch"), "job.yaml:7");
  EXPECT_EQ(places.Find("data.text[1]"), "job.yaml:5");
  EXPECT_EQ(places.Find("precision.overrides[1].recipe"), "job.yaml:14");
  EXPECT_EQ(places.Find("checkpoint.keep"), "job.yaml:1");
  Violations faults = {
      {.field = "resources.ranks", .description = "", .suggestion = "", .place = ""}};
  places.Attach(&faults);
  EXPECT_EQ(faults[0].place, "job.yaml:15");
  EXPECT_EQ(Places().Find("name"), "");
}

}  // namespace
}  // namespace coat
