#include "worker/metrics/record.h"

#include <gtest/gtest.h>

#include <cmath>

namespace coat {
namespace {

TEST(KindBytes, ListsEveryKindAndOther) {
  KindBytesList list;
  SetKindBytes({1, 2, 3, 4, 5, 6, 0}, 8, &list);
  ASSERT_EQ(list.size(), 8);
  EXPECT_EQ(list[0].kind(), "weights");
  EXPECT_EQ(list[3].kind(), "optimizer");
  EXPECT_EQ(list[3].bytes(), 4);
  EXPECT_EQ(list[6].kind(), "communication");
  EXPECT_EQ(list[7].kind(), "other");
  EXPECT_EQ(list[7].bytes(), 8);
  SetKindBytes({}, std::nullopt, &list);
  EXPECT_EQ(list.size(), 7);
}

TEST(ResidentBytes, GrowsWithWhatIsTouched) {
  const int64_t before = ResidentBytes();
  EXPECT_GT(before, 0);
  std::vector<char> block(64 << 20, 1);
  EXPECT_GE(ResidentBytes() - before, (48 << 20)) << static_cast<int>(block[12345]);
}

TEST(Health, DividesByTheRightCounters) {
  const float counters[8] = {200, 100, 4, 3, 0.25f, 4, 0.5f, 2};
  const auto health = MakeHealth("weight", counters);
  ASSERT_TRUE(health);
  EXPECT_EQ(health->operand(), "weight");
  EXPECT_DOUBLE_EQ(health->saturated_ratio(), 0.02);  // of all values
  EXPECT_DOUBLE_EQ(health->flushed_ratio(), 0.03);    // of the non-zero ones
  EXPECT_DOUBLE_EQ(health->relative_error(), 0.25);
  EXPECT_DOUBLE_EQ(health->scale_min(), 0.5);
  EXPECT_DOUBLE_EQ(health->scale_max(), 2);
}

TEST(Health, ZerosAloneAreNotAnError) {
  const float zeros[8] = {16, 0, 0, 0, 0, 0, 1, 1};
  const auto health = MakeHealth("group", zeros);
  ASSERT_TRUE(health);
  EXPECT_EQ(health->flushed_ratio(), 0);
  EXPECT_EQ(health->relative_error(), 0);
  const float nothing[8] = {};
  EXPECT_FALSE(MakeHealth("group", nothing));
}

TEST(Timestamp, KeepsMilliseconds) {
  EXPECT_EQ(MakeTimestamp(1'700'000'000'123).seconds(), 1'700'000'000);
  EXPECT_EQ(MakeTimestamp(1'700'000'000'123).nanos(), 123'000'000);
}

TEST(Histogram, HasOneBucketMore) {
  const auto histogram = MakeHistogram({0.5, 1}, {1, 2, 3});
  EXPECT_EQ(histogram.bounds_size(), 2);
  EXPECT_EQ(histogram.counts(2), 3);
}

}  // namespace
}  // namespace coat
