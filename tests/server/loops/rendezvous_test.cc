#include "server/loops/rendezvous.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

TEST(RendezvousTest, ValuesBelongToTheirAttempt) {
  Rendezvous rendezvous;
  ASSERT_TRUE(rendezvous.Put("job", 1, "k", "one").ok());
  EXPECT_EQ(rendezvous.Get("job", 1, {"k", "other"}, 0).size(), 1u);
  EXPECT_TRUE(rendezvous.Get("job", 2, {"k"}, 0).empty());
  ASSERT_TRUE(rendezvous.Put("job", 1, "k", "two").ok());
  EXPECT_EQ(rendezvous.Get("job", 1, {"k"}, 0).at("k"), "two");
}

TEST(RendezvousTest, AMissingValueIsOverdueFromTheFirstTimeItWasAskedFor) {
  Rendezvous rendezvous;
  rendezvous.Get("job", 1, {"k"}, 1000);
  rendezvous.Get("job", 1, {"k"}, 50'000);
  EXPECT_FALSE(rendezvous.Overdue("job", 1, 120'999, 120'000).has_value());
  EXPECT_EQ(rendezvous.Overdue("job", 1, 121'000, 120'000), "k");
  ASSERT_TRUE(rendezvous.Put("job", 1, "k", "v").ok());
  EXPECT_FALSE(rendezvous.Overdue("job", 1, 1'000'000, 120'000).has_value());
}

TEST(RendezvousTest, IsBoundedAndForgets) {
  Rendezvous rendezvous;
  const std::string large(kMaxRendezvousValueBytes - 8, 'x');
  EXPECT_EQ(rendezvous.Put("job", 1, "key", std::string(kMaxRendezvousValueBytes, 'x')).code(),
            Code::kResourceExhausted);
  int held = 0;
  while (rendezvous.Put("job", 1, std::to_string(held), large).ok()) ++held;
  EXPECT_EQ(held, 64);
  rendezvous.Clear("job");
  EXPECT_TRUE(rendezvous.Get("job", 1, {"0"}, 0).empty());
  EXPECT_TRUE(rendezvous.Put("job", 2, "k", large).ok());
}

}  // namespace
}  // namespace coat
