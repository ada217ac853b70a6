#include "worker/bench/moment_pairs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace coat {
namespace {

constexpr MomentPair kPlain{DType::kE4M3, DType::kE4M3, MomentCodec::kPlain};

UpdateError ErrorOf(const MomentPair& pair, const std::vector<float>& m,
                    const std::vector<float>& v) {
  UpdateError error;
  AddUpdateError(pair, m, v, &error);
  return error;
}

TEST(MomentPairsTest, EightPairsOfThePaperAndTheStoredForm) {
  const std::vector<MomentPair> pairs = PaperPairs();
  EXPECT_EQ(pairs.size(), 12u);
  EXPECT_EQ(pairs[0].codec, MomentCodec::kPlain);
  EXPECT_EQ(pairs[0].bytes_per_parameter(), 2.0625);
  EXPECT_EQ(pairs[2].codec, MomentCodec::kExpanded);
  EXPECT_EQ(pairs[2].bytes_per_parameter(), 2.09375);
}

// m = v = 1 in every element is stored exactly; the update is 1.
TEST(MomentPairsTest, ExactMomentsHaveNoError) {
  const std::vector<float> ones(200, 1.0f);
  for (const MomentPair& pair : PaperPairs()) {
    const UpdateError error = ErrorOf(pair, ones, ones);
    EXPECT_EQ(error.mean(), 0.0);
    EXPECT_EQ(error.elements, 200);
    EXPECT_EQ(error.squared, 200.0);
  }
}

// One element of m between two codes: m = 448 and 17 (codes 16 and 18) with v = 1: the scale is 1,
// 17 rounds to 16 (even), so the error is 1 in one of two elements.
TEST(MomentPairsTest, ErrorByHand) {
  const UpdateError error = ErrorOf(kPlain, {448.0f, 17.0f}, {448.0f, 448.0f});
  const double unit = 1 / std::sqrt(448.0);
  EXPECT_NEAR(error.mean(), unit * unit / 2, 1e-12);
  EXPECT_NEAR(error.relative(), 1.0 / (448.0 * 448.0 + 17.0 * 17.0), 1e-12);
}

// v that the plain quantizer flushes counts as update 0, and as the smallest code otherwise.
TEST(MomentPairsTest, FlushedSecondMoment) {
  const std::vector<float> m = {448.0f, 2.0f}, v = {448.0f, 1e-6f};
  EXPECT_NEAR(ErrorOf(kPlain, m, v).squared_error, 4e6, 1);
  const MomentPair kept{DType::kE4M3, DType::kE4M3, MomentCodec::kPlainNonZero};
  const double stored = 2 / std::sqrt(0x1p-9);
  EXPECT_NEAR(ErrorOf(kept, m, v).squared_error, (2e3 - stored) * (2e3 - stored), 1);
}

TEST(MomentPairsTest, TailsCountOnce) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> m(300), v(300);
  for (size_t i = 0; i < m.size(); ++i) {
    const float g = normal(random);
    m[i] = 0.1f * g;
    v[i] = g * g * (0.5f + std::abs(normal(random)));
  }
  UpdateError parts;
  const MomentPair expanded{DType::kE4M3, DType::kE4M3, MomentCodec::kExpanded};
  AddUpdateError(expanded, std::span(m).first(128), std::span(v).first(128), &parts);
  AddUpdateError(expanded, std::span(m).subspan(128), std::span(v).subspan(128), &parts);
  const UpdateError whole = ErrorOf(expanded, m, v);
  EXPECT_EQ(parts.elements, 300);
  EXPECT_NEAR(parts.squared_error, whole.squared_error, 1e-12);
  EXPECT_LT(whole.mean(), ErrorOf(kPlain, m, v).mean());
}

}  // namespace
}  // namespace coat
