#include "worker/data/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace coat {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Order(int64_t n, uint64_t seed, uint64_t stream) {
  Permutation permutation(n, seed, stream);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) order.push_back(permutation(i));
  return order;
}

TEST(Permutation, IsABijectionForEverySize) {
  for (int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4097, 100'003}) {
    std::vector<int64_t> order = Order(n, 7, 3);
    std::set<int64_t> seen(order.begin(), order.end());
    EXPECT_EQ(static_cast<int64_t>(seen.size()), n);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

TEST(Permutation, StaysInRangeForHugeSizes) {
  constexpr int64_t kHuge = (int64_t{1} << 40) + 12345;
  Permutation permutation(kHuge, 1, 2);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    int64_t x = permutation(kHuge - 1 - i * 1'000'003);
    EXPECT_GE(x, 0);
    EXPECT_LT(x, kHuge);
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Permutation, SeedAndStreamChangeTheOrder) {
  EXPECT_EQ(Order(100, 7, 0), Order(100, 7, 0));
  EXPECT_NE(Order(100, 7, 0), Order(100, 8, 0));
  EXPECT_NE(Order(100, 7, 0), Order(100, 7, 1));
  EXPECT_NE(Order(100, 7, 1), Order(100, 8, 0));
}

// Resumed runs rely on these values; a change of the algorithm must not go unnoticed.
TEST(Permutation, OrderIsFixedForAllTime) {
  EXPECT_THAT(Order(10, 0, 0), ElementsAre(9, 4, 5, 3, 6, 2, 1, 8, 7, 0));
  EXPECT_THAT(Order(10, 7, 1), ElementsAre(9, 4, 6, 2, 0, 1, 5, 7, 3, 8));
  EXPECT_EQ(Permutation(1'000'000'007, 42, 5)(123'456'789), 220'715'113);
}

// Each of 8 x 8 (place, value) cells should be hit trials/8 times over seeds. The chi-square of the
// table has 49 degrees of freedom: mean 49, standard deviation sqrt(98); six of them is the bound.
TEST(Permutation, PlacesAreUniformOverSeeds) {
  constexpr int kTrials = 8000, kSize = 8;
  int counts[kSize][kSize] = {};
  for (int seed = 0; seed < kTrials; ++seed) {
    Permutation permutation(kSize, static_cast<uint64_t>(seed), 0);
    for (int i = 0; i < kSize; ++i) ++counts[i][permutation(i)];
  }
  double chi_square = 0, expected = static_cast<double>(kTrials) / kSize;
  for (auto& row : counts) {
    for (int count : row) chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 49 + 6 * std::sqrt(98.0));
}

}  // namespace
}  // namespace coat
