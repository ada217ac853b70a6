#include "worker/precision/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/base/error.h"

namespace coat {
namespace {

using coatrack::v1::PrecisionSpec;

PrecisionSpec Spec(coatrack::v1::Recipe recipe, coatrack::v1::SaveMode save) {
  PrecisionSpec spec;
  spec.set_recipe(recipe);
  spec.set_save(save);
  spec.set_accumulation(coatrack::v1::ACCUMULATION_PRECISE);
  return spec;
}

void Override(PrecisionSpec& spec, const std::string& layer, coatrack::v1::Recipe recipe) {
  coatrack::v1::LayerOverride* entry = spec.add_overrides();
  entry->set_layer(layer);
  entry->set_recipe(recipe);
}

TEST(RecipeTest, CoatStandardKeepsWhatNumericsLists) {
  const LayerRecipe recipe =
      ResolveLayerRecipe(Spec(coatrack::v1::RECIPE_COAT, coatrack::v1::SAVE_MODE_STANDARD), 1, 4);
  EXPECT_EQ(recipe.operand, DType::kE4M3);
  EXPECT_EQ(recipe.gradient, DType::kE5M2);
  EXPECT_EQ(recipe.norm_input, Kept::kGroup);
  EXPECT_EQ(recipe.norm_output, Kept::kE4M3);
  EXPECT_EQ(recipe.gate_up, Kept::kGroup);
  EXPECT_EQ(recipe.product, Kept::kE4M3);
}

TEST(RecipeTest, LeanDropsOnlyWhatIsRecomputed) {
  const LayerRecipe recipe =
      ResolveLayerRecipe(Spec(coatrack::v1::RECIPE_COAT, coatrack::v1::SAVE_MODE_LEAN), 1, 4);
  EXPECT_EQ(recipe.norm_output, Kept::kNothing);
  EXPECT_EQ(recipe.product, Kept::kNothing);
  EXPECT_EQ(recipe.norm_input, Kept::kGroup);
  EXPECT_EQ(recipe.gate_up, Kept::kGroup);
}

TEST(RecipeTest, Fp8AndBf16) {
  const LayerRecipe fp8 =
      ResolveLayerRecipe(Spec(coatrack::v1::RECIPE_FP8, coatrack::v1::SAVE_MODE_LEAN), 0, 4);
  EXPECT_TRUE(fp8.fp8_gemm());
  EXPECT_EQ(fp8.norm_input, Kept::kBf16);
  EXPECT_EQ(fp8.norm_output, Kept::kE4M3);
  EXPECT_EQ(fp8.gate_up, Kept::kBf16);
  EXPECT_EQ(fp8.product, Kept::kE4M3);
  const LayerRecipe bf16 =
      ResolveLayerRecipe(Spec(coatrack::v1::RECIPE_BF16, coatrack::v1::SAVE_MODE_LEAN), 0, 4);
  EXPECT_FALSE(bf16.fp8_gemm());
  EXPECT_EQ(bf16.gradient, DType::kBF16);
  EXPECT_EQ(bf16.norm_output, Kept::kBf16);
  EXPECT_EQ(bf16.product, Kept::kBf16);
}

TEST(RecipeTest, OverridesNameFirstLastAndIndex) {
  PrecisionSpec spec = Spec(coatrack::v1::RECIPE_COAT, coatrack::v1::SAVE_MODE_LEAN);
  Override(spec, "first", coatrack::v1::RECIPE_BF16);
  Override(spec, "2", coatrack::v1::RECIPE_FP8);
  Override(spec, "last", coatrack::v1::RECIPE_BF16);
  const coatrack::v1::Recipe want[] = {coatrack::v1::RECIPE_BF16, coatrack::v1::RECIPE_COAT,
                                       coatrack::v1::RECIPE_FP8, coatrack::v1::RECIPE_BF16};
  for (int64_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(ResolveLayerRecipe(spec, layer, 4).recipe, want[layer]) << layer;
  }
}

TEST(RecipeTest, FastAccumulationNeedsFp8) {
  PrecisionSpec spec = Spec(coatrack::v1::RECIPE_COAT, coatrack::v1::SAVE_MODE_LEAN);
  EXPECT_FALSE(ResolveLayerRecipe(spec, 0, 1).fast_forward);
  spec.set_accumulation(coatrack::v1::ACCUMULATION_FAST);
  EXPECT_TRUE(ResolveLayerRecipe(spec, 0, 1).fast_forward);
  spec.set_recipe(coatrack::v1::RECIPE_BF16);
  EXPECT_FALSE(ResolveLayerRecipe(spec, 0, 1).fast_forward);
}

TEST(RecipeTest, RefusesALayerThatIsNotThere) {
  for (const char* layer : {"4", "-1", "1x", "", "head"}) {
    PrecisionSpec spec = Spec(coatrack::v1::RECIPE_COAT, coatrack::v1::SAVE_MODE_LEAN);
    Override(spec, layer, coatrack::v1::RECIPE_BF16);
    try {
      ResolveLayerRecipe(spec, 0, 4);
      FAIL() << "accepted layer " << layer;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("precision.overrides"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("0 to 3"));
    }
  }
  EXPECT_THROW(ResolveLayerRecipe(PrecisionSpec(), 0, 4), Error);
}

}  // namespace
}  // namespace coat
