// However many short ranks a worker has had, it shows and keeps nothing of them.
#include <gtest/gtest.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include "tests/support/process.h"
#include "worker/supervisor/metrics_page.h"
#include "worker/supervisor/supervisor.h"

namespace coat {
namespace {

constexpr int kRanks = 50'000;
constexpr int kAtOnce = 64;
constexpr int kWarmup = 10'000;  // more than the ids that are remembered

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class ManyRanks : public ::testing::Test {
 protected:
  ManyRanks() { spdlog::set_level(spdlog::level::off); }  // each end is a line
  ~ManyRanks() override { spdlog::set_level(spdlog::level::info); }
};

TEST_F(ManyRanks, LeaveNoSeriesAndNoMemoryBehind) {
  const testing::TempDir dir;
  const SystemClock clock;
  const auto state = StateDir::Open(dir.path().string()).value();
  LaunchContext context;
  context.state_dir = dir.path().string();
  Supervisor supervisor(context, state.get(), &clock);
  int64_t before = 0;
  for (int first = 0; first < kRanks; first += kAtOnce) {
    coatrack::v1::SyncResponse wanted;
    wanted.set_epoch(1);
    coatrack::v1::SyncResponse acknowledged = wanted;
    for (int i = first; i < first + kAtOnce; ++i) {
      coatrack::v1::DesiredRank* rank = wanted.add_ranks();
      SetRankKey({"job" + std::to_string(i), 1, 0}, rank->mutable_key());
      rank->set_device("cpu:0");
      rank->set_root_uuid("unknown here");  // so that it ends at once, without a process
      *acknowledged.add_acknowledged() = rank->key();
    }
    ASSERT_TRUE(supervisor.Apply(wanted));
    coatrack::v1::SyncRequest report;
    supervisor.FillReport(&report);
    ASSERT_EQ(report.ranks_size(), kAtOnce);
    ASSERT_EQ(report.ranks(0).state(), coatrack::v1::RANK_STATE_EXITED);
    ASSERT_TRUE(RenderRankSeries(supervisor.Series()).empty());
    ASSERT_TRUE(supervisor.Apply(acknowledged));
    ASSERT_EQ(supervisor.unacknowledged(), 0);
    if (first + kAtOnce >= kWarmup && before == 0) before = HeapBytes();
  }
  // Two bytes a rank would be seen.
  EXPECT_LT(HeapBytes() - before, 2 * (kRanks - kWarmup));
}

}  // namespace
}  // namespace coat
