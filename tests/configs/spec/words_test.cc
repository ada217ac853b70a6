#include "configs/spec/words.h"

#include <gtest/gtest.h>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"

namespace coat {
namespace {

TEST(WordsTest, EnumWordsHaveNoPrefix) {
  EXPECT_EQ(EnumWord(coatrack::v1::RECIPE_COAT), "coat");
  EXPECT_EQ(EnumWord(coatrack::v1::OPTIMIZER_STATE_FP8_DRE), "fp8_dre");
  EXPECT_EQ(EnumWord(coatrack::v1::JOB_STATE_UNSPECIFIED), "unspecified");
  EXPECT_EQ(EnumWord(static_cast<coatrack::v1::JobState>(77)), "77");
  const auto& recipes = *coatrack::v1::Recipe_descriptor();
  EXPECT_EQ(EnumWords(recipes), (std::vector<std::string>{"bf16", "fp8", "coat"}));
  EXPECT_EQ(FindEnumWord(recipes, "fp8")->number(), coatrack::v1::RECIPE_FP8);
  EXPECT_EQ(FindEnumWord(recipes, "unspecified"), nullptr);
  EXPECT_EQ(FindEnumWord(recipes, "FP8"), nullptr);
}

TEST(WordsTest, FindsTheNearestWord) {
  const std::vector<std::string> known = {"steps", "seed", "sequence_length", "micro_batch"};
  EXPECT_EQ(NearestWord("step", known), "steps");
  EXPECT_EQ(NearestWord("setps", known), "steps");
  EXPECT_EQ(NearestWord("sequence_lenght", known), "sequence_length");
  EXPECT_EQ(NearestWord("microbatch", known), "micro_batch");
  EXPECT_EQ(NearestWord("gradient", known), "");
  EXPECT_EQ(NearestWord("", known), "");
  EXPECT_EQ(NearestWord(std::string(100000, 'a'), known), "");
  EXPECT_EQ(SuggestWord("sed", known), "write 'seed'");
  EXPECT_EQ(SuggestWord("qqqqqq", {"a", "b"}), "known: a, b");
}

}  // namespace
}  // namespace coat
