#include "worker/memory/pack.h"

#include <gtest/gtest.h>

#include <random>

namespace coat {
namespace {

constexpr int64_t kAlignment = 256;

bool Overlap(const PackItem& a, const PackItem& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(Pack, NothingNeedsNothing) {
  std::vector<PackItem> items;
  EXPECT_EQ(Pack(kAlignment, &items), 0);
}

TEST(Pack, ItemsThatNeverMeetShareAPlace) {
  std::vector<PackItem> items = {{1000, 0, 1, 0}, {900, 2, 3, 0}, {100, 4, 9, 0}};
  EXPECT_EQ(Pack(kAlignment, &items), 1024);
  for (const PackItem& item : items) EXPECT_EQ(item.offset, 0);
}

TEST(Pack, ItemsThatMeetInOneStageAreApart) {
  std::vector<PackItem> items = {{1000, 0, 2, 0}, {900, 2, 3, 0}};
  EXPECT_EQ(Pack(kAlignment, &items), 2048);
  EXPECT_FALSE(Overlap(items[0], items[1]));
}

TEST(Pack, FillsAHoleBetweenTwoItems) {
  // The small one fits below the second once the first is gone.
  std::vector<PackItem> items = {{512, 0, 0, 0}, {1024, 0, 1, 0}, {256, 1, 1, 0}};
  EXPECT_EQ(Pack(kAlignment, &items), 1536);
  EXPECT_FALSE(Overlap(items[1], items[2]));
}

TEST(Pack, RandomItemsNeverOverlapAndStayNearTheLowerBound) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<PackItem> items;
    std::vector<int64_t> live(20, 0);
    int64_t sum = 0;
    for (int i = 0; i < 40; ++i) {
      const int first = static_cast<int>(random() % 20);
      const int last = first + static_cast<int>(random() % static_cast<uint32_t>(20 - first));
      const int64_t bytes = kAlignment * (1 + random() % 100);
      items.push_back({bytes, first, last, 0});
      for (int stage = first; stage <= last; ++stage) live[static_cast<size_t>(stage)] += bytes;
      sum += bytes;
    }
    const int64_t pool = Pack(kAlignment, &items);
    const int64_t least = *std::max_element(live.begin(), live.end());
    EXPECT_GE(pool, least);
    EXPECT_LE(pool, std::min(sum, least + least / 2));
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].offset % kAlignment, 0);
      for (size_t j = i + 1; j < items.size(); ++j) {
        const bool meet = items[i].first <= items[j].last && items[j].first <= items[i].last;
        EXPECT_FALSE(meet && Overlap(items[i], items[j])) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace coat
