#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coatrack/v1/job.pb.h"
#include "configs/spec/reader.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using ::testing::HasSubstr;

TEST(SetFieldTest, SetsScalarsListsMapsAndElements) {
  JobSpec spec;
  for (const char* assignment :
       {"train.steps=5", "optimizer.lr=1e-3", "precision.recipe=bf16", "resources.time_limit=2h",
        "model.tie_embeddings=true", "data.text=[a.txt, \"b/*.txt\"]", "data.text[1]=c.txt",
        "data.text[2]=d.txt", "labels.team.sub=x", "precision.overrides[0].layer=first",
        "precision.overrides[0].recipe=fp8", "init_from.job=j-1", "name=a", "labels.e=\"k=v\""}) {
    const Violations faults = SetAssignment(&spec, assignment);
    EXPECT_TRUE(faults.empty()) << FormatViolations(faults);
  }
  EXPECT_EQ(spec.train().steps(), 5);
  EXPECT_EQ(spec.optimizer().lr(), 1e-3);
  EXPECT_EQ(spec.precision().recipe(), coatrack::v1::RECIPE_BF16);
  EXPECT_EQ(spec.resources().time_limit().seconds(), 7200);
  EXPECT_TRUE(spec.model().tie_embeddings());
  EXPECT_THAT(spec.data().text(), ::testing::ElementsAre("a.txt", "c.txt", "d.txt"));
  EXPECT_EQ(spec.labels().at("team.sub"), "x");
  EXPECT_EQ(spec.labels().at("e"), "k=v");
  EXPECT_EQ(spec.precision().overrides(0).layer(), "first");
  EXPECT_EQ(spec.precision().overrides(0).recipe(), coatrack::v1::RECIPE_FP8);
  EXPECT_EQ(spec.init_from().job(), "j-1");
}

TEST(SetFieldTest, OverwritesWhatTheFileSaid) {
  JobSpec spec;
  Places places;
  ASSERT_TRUE(
      ReadYaml("train: {steps: 7, seed: 3}\nlabels: {a: x, b: y}\n", "job.yaml", &spec, &places)
          .empty());
  EXPECT_TRUE(SetAssignment(&spec, "train.steps=8", &places).empty());
  EXPECT_TRUE(SetAssignment(&spec, "labels.a=z", &places).empty());
  EXPECT_EQ(spec.train().steps(), 8);
  EXPECT_EQ(spec.train().seed(), 3u);
  EXPECT_EQ(spec.labels().at("a"), "z");
  EXPECT_EQ(spec.labels_size(), 2);
  EXPECT_EQ(places.Find("train.steps"), "command line");
  EXPECT_EQ(places.Find("train.seed"), "job.yaml:1");
  EXPECT_TRUE(SetAssignment(&spec, "train={steps: 9}", &places).empty());
  EXPECT_FALSE(spec.train().has_seed());
}

struct BadAssignment {
  const char* name;
  const char* assignment;
  const char* message;
};

void PrintTo(const BadAssignment& bad, std::ostream* out) { *out << bad.name; }

class SetFieldRefusesTest : public ::testing::TestWithParam<BadAssignment> {};

TEST_P(SetFieldRefusesTest, SaysWhatToWrite) {
  JobSpec spec;
  EXPECT_THAT(FormatViolations(SetAssignment(&spec, GetParam().assignment)),
              HasSubstr(GetParam().message));
}

constexpr BadAssignment kBadAssignments[] = {
    {"NoEquals", "train.steps", "'train.steps' is not path=value; write it like train.steps=100"},
    {"NoPath", "=5", "is not path=value"},
    {"UnknownField", "train.step=5", "command line: train.step: is not a field; write 'steps'"},
    {"UnknownParent", "trian.steps=5", "trian: is not a field; write 'train'"},
    {"EmptyParts", "train..steps=5", "is not a field"},
    {"TrailingDot", "labels.=5", "has no fields of its own"},
    {"WrongType", "train.steps=x", "command line: train.steps: 'x' is not a whole number"},
    {"Octal", "train.steps=010", "leading zero"},
    {"NothingAfterEquals", "name=", "has no value"},
    {"BelowAScalar", "name.x=5", "has no fields of its own"},
    {"BelowADuration", "resources.time_limit.seconds=5", "has no fields of its own"},
    {"BelowAList", "precision.overrides.layer=first", "has no fields of its own"},
    {"IndexOfAScalar", "name[0]=5", "is not a list"},
    {"IndexOutOfRange", "data.text[3]=a", "has 0 elements"},
    {"IndexNegative", "data.text[-1]=a", "has 0 elements"},
    {"IndexHuge", "data.text[99999999999999999999]=a", "has 0 elements"},
    {"IndexUnclosed", "data.text[0=a", "has 0 elements"},
    {"AfterIndex", "data.text[0].x=a", "cannot be followed by '.x'"},
    {"TwoDocuments", "name=a\n---\nb", "second document"},
    {"BrokenYaml", "data.text=[a", "not valid YAML"},
};

INSTANTIATE_TEST_SUITE_P(Assignments, SetFieldRefusesTest, ::testing::ValuesIn(kBadAssignments),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace coat
