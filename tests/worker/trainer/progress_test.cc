#include "worker/trainer/progress.h"

#include <gtest/gtest.h>

#include "tests/worker/trainer/tiny_world.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::Phase;
using coatrack::v1::StepRecord;

class FixedClock final : public Clock {
 public:
  int64_t SteadyMs() const override { return 0; }
  int64_t WallMs() const override { return 1'700'000'000'500; }
};

TEST(Progress, StampsRecords) {
  const FixedClock clock;
  testing::MemorySink sink;
  const auto collectives = CreateLocalCollectives(1, 1000);
  Progress progress(3, 1, &sink, &clock);
  progress.SetCollectives(collectives[0].get());
  collectives[0]->Barrier();
  progress.Enter(Phase::PHASE_STEP, 0);
  EXPECT_TRUE(sink.records().empty());  // steps begin too often
  StepRecord record;
  record.set_step(1);
  record.set_tokens(5);
  progress.Write(record);
  const StepRecord written = sink.records().at(0);
  EXPECT_EQ(written.attempt(), 3);
  EXPECT_EQ(written.rank(), 1);
  EXPECT_EQ(written.phase(), Phase::PHASE_STEP);
  EXPECT_EQ(written.collective_sequence(), 1u);
  EXPECT_EQ(written.time().seconds(), 1'700'000'000);
  EXPECT_EQ(written.time().nanos(), 500'000'000);
}

TEST(Progress, TicksOnlyWhenSomethingMoved) {
  const FixedClock clock;
  testing::MemorySink sink;
  const auto collectives = CreateLocalCollectives(1, 1000);
  Progress progress(1, 0, &sink, &clock);
  progress.SetCollectives(collectives[0].get());
  progress.Enter(Phase::PHASE_EVALUATE, 7);
  EXPECT_EQ(sink.records().size(), 1u);  // the beginning of a phase is shown at once
  progress.Tick();
  EXPECT_EQ(sink.records().size(), 1u);
  collectives[0]->Barrier();
  progress.Tick();
  progress.Tick();
  ASSERT_EQ(sink.records().size(), 2u);
  EXPECT_TRUE(IsProgressOnly(sink.records()[1]));
  EXPECT_EQ(sink.records()[1].step(), 7);
  EXPECT_EQ(sink.records()[1].collective_sequence(), 1u);
  progress.Enter(Phase::PHASE_STEP, 7);
  progress.Tick();  // a step that takes long shows its phase
  ASSERT_EQ(sink.records().size(), 3u);
  EXPECT_EQ(sink.records()[2].phase(), Phase::PHASE_STEP);
}

}  // namespace
}  // namespace coat
