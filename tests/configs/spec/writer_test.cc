#include "configs/spec/writer.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coatrack/v1/daemon_config.pb.h"
#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/base/error.h"
#include "configs/spec/defaults.h"
#include "configs/spec/reader.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using google::protobuf::util::MessageDifferencer;

JobSpec Example() {
  JobSpec spec;
  spec.set_api_version("coatrack/v1");
  spec.set_name("tiny");
  spec.mutable_model()->set_preset("llama-tiny");
  spec.mutable_data()->add_text("corpus/*.txt");
  spec.mutable_train()->set_steps(1200);
  spec.mutable_train()->set_seed(18446744073709551615u);
  spec.mutable_train()->set_deterministic(false);
  spec.mutable_optimizer()->set_lr(3e-3);
  spec.mutable_optimizer()->set_eps(1e-8);
  spec.mutable_optimizer()->set_clip_norm(1);
  spec.mutable_precision()->set_recipe(coatrack::v1::RECIPE_COAT);
  auto* override = spec.mutable_precision()->add_overrides();
  override->set_layer("first");
  override->set_recipe(coatrack::v1::RECIPE_BF16);
  spec.mutable_precision()->add_overrides()->set_layer("3");
  spec.mutable_resources()->mutable_time_limit()->set_seconds(1800);
  spec.set_priority(0);
  (*spec.mutable_labels())["b"] = "2";
  (*spec.mutable_labels())["a"] = "yes";
  spec.mutable_checkpoint();
  return spec;
}

TEST(WriterTest, PrintsYaml) {
  EXPECT_EQ(ToYaml(Example()), R"(api_version: coatrack/v1
name: tiny
model:
  preset: llama-tiny
data:
  text: [corpus/*.txt]
train:
  steps: 1200
  seed: 18446744073709551615
  deterministic: false
optimizer:
  lr: 0.003
  eps: 1.0e-08
  clip_norm: 1.0
precision:
  recipe: coat
  overrides:
    - layer: first
      recipe: bf16
    - layer: "3"
resources:
  time_limit: 30m
checkpoint: {}
priority: 0
labels:
  a: "yes"
  b: "2"
)");
}

TEST(WriterTest, PrintsJson) {
  coatrack::v1::RankExit exit;
  exit.set_exit_status(-1);
  exit.set_reason(coatrack::v1::REASON_HOST_OOM);
  exit.set_message("a \"b\"\n\x01");
  exit.set_last_step(9007199254740993);
  exit.mutable_time()->set_seconds(1769860800);
  EXPECT_EQ(ToJson(exit), R"({
  "exit_status": -1,
  "reason": "host_oom",
  "message": "a \"b\"\n\u0001",
  "last_step": 9007199254740993,
  "time": "2026-01-31T12:00:00Z"
})");
  EXPECT_EQ(ToJson(coatrack::v1::StorageRootConfig(), JsonStyle::kCompact), "{}");
  EXPECT_EQ(ToJson(coatrack::v1::StorageRootConfig(), JsonStyle::kCompact, Zeros::kPrint),
            R"({"name":"","path":""})");
}

TEST(WriterTest, NumbersThatAreNotFiniteAreNull) {
  coatrack::v1::StepRecord record;
  record.set_loss(std::numeric_limits<double>::quiet_NaN());
  record.set_grad_norm(std::numeric_limits<double>::infinity());
  EXPECT_EQ(ToJson(record, JsonStyle::kCompact), R"({"loss":null,"grad_norm":null})");
  EXPECT_EQ(ToYaml(record), "loss: .nan\ngrad_norm: .inf\n");
}

TEST(WriterTest, RefusesBytes) {
  EXPECT_EQ(ToYaml(JobSpec()), "{}\n");
  google::protobuf::BytesValue value;
  value.set_value("x");
  EXPECT_THROW(ToJson(value), Error);
}

void ExpectReadsBackEqual(const google::protobuf::Message& message) {
  for (const std::string& text : {ToYaml(message), ToJson(message), CanonicalText(message)}) {
    std::unique_ptr<google::protobuf::Message> again(message.New());
    const Violations faults = ReadYaml(text, "written", again.get());
    ASSERT_TRUE(faults.empty()) << FormatViolations(faults) << "\n" << text;
    EXPECT_TRUE(MessageDifferencer::Equals(message, *again)) << text;
    EXPECT_EQ(CanonicalText(*again), CanonicalText(message));
  }
}

TEST(WriterTest, WhatItPrintsReadsBackEqual) {
  ExpectReadsBackEqual(Example());
  JobSpec defaulted = Example();
  ASSERT_TRUE(ApplyDefaults(&defaulted).empty());
  ExpectReadsBackEqual(defaulted);
  coatrack::v1::ServerConfig server;
  ApplyDefaults(&server);
  ExpectReadsBackEqual(server);
  coatrack::v1::WorkerConfig worker;
  ApplyDefaults(&worker);
  worker.add_roots();
  worker.add_roots()->set_path("/x y");
  ExpectReadsBackEqual(worker);
}

TEST(WriterTest, AwkwardTextsReadBackEqual) {
  for (const char* text : {"",
                           " ",
                           "a b",
                           "010",
                           "1.10",
                           "true",
                           "NULL",
                           "~",
                           "- a",
                           "*x",
                           "&x",
                           "!x",
                           "#x",
                           "a: b",
                           "a #b",
                           "'",
                           "\"",
                           "\\",
                           "\\n",
                           "line\nbreak",
                           "tab\t",
                           "\r",
                           "\x01\x7F",
                           "{a}",
                           "[a]",
                           "a,b",
                           "%x",
                           "@x",
                           "`x`",
                           "<<",
                           "é ü 漢字 \xF0\x9F\x8E\x89",
                           "---",
                           "...",
                           "30m",
                           "1_0",
                           "2026-01-01",
                           "12:30",
                           "0x1F",
                           ".5",
                           "-1",
                           "+1",
                           "1e5",
                           "y",
                           "=",
                           "\xC2\x85",
                           "?",
                           ": ",
                           "/abs",
                           "~/x",
                           "trailing ",
                           "-"}) {
    JobSpec spec;
    spec.set_name(text);
    spec.mutable_data()->add_text(text);
    spec.mutable_data()->add_text(text);
    if (*text != '\0') (*spec.mutable_labels())[text] = text;
    spec.mutable_precision()->add_overrides()->set_layer(text);
    SCOPED_TRACE(text);
    ExpectReadsBackEqual(spec);
  }
}

TEST(WriterTest, DoublesReadBackToTheBit) {
  for (const double value :
       {0.0, 1.0, -1.0, 0.1, 1e-8, 3e-3, 1e300, 5e-300, 1.0 / 3, 123456789.123, 1e22, 1e-7,
        std::numeric_limits<double>::max(), std::numeric_limits<double>::min(),
        std::numeric_limits<double>::denorm_min()}) {
    JobSpec spec;
    spec.mutable_optimizer()->set_lr(value);
    ExpectReadsBackEqual(spec);
    EXPECT_NE(FormatDouble(value).find('.'), std::string::npos) << FormatDouble(value);
  }
}

TEST(WriterTest, DurationsReadBackEqual) {
  for (const int64_t ms :
       {int64_t{0}, int64_t{1}, int64_t{999}, int64_t{1000}, int64_t{60'000}, int64_t{90'000},
        int64_t{3'600'000}, int64_t{5'400'000}, int64_t{86'400'000}, int64_t{1'500}}) {
    JobSpec spec;
    auto* limit = spec.mutable_resources()->mutable_time_limit();
    limit->set_seconds(ms / 1000);
    limit->set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
    ExpectReadsBackEqual(spec);
  }
}

TEST(WriterTest, EqualMessagesPrintEqualTextInAnyOrderOfInsertion) {
  JobSpec a, b;
  for (int i = 0; i < 32; ++i) {
    (*a.mutable_labels())["k" + std::to_string(i)] = "v";
    (*b.mutable_labels())["k" + std::to_string(31 - i)] = "v";
  }
  EXPECT_EQ(CanonicalText(a), CanonicalText(b));
  (*b.mutable_labels())["k0"] = "w";
  EXPECT_NE(CanonicalText(a), CanonicalText(b));
}

TEST(WriterTest, WrittenZeroIsNotTheSameAsNotWritten) {
  JobSpec zero, unset;
  zero.set_priority(0);
  EXPECT_NE(CanonicalText(zero), CanonicalText(unset));
}

}  // namespace
}  // namespace coat
