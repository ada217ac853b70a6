#include <gmock/gmock.h>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace coat {
namespace {

using ::testing::UnorderedElementsAre;

using Retention = CheckpointTest;

TEST_F(Retention, KeepsTheNewest) {
  for (int step = 1; step <= 5; ++step) Save(step);
  ApplyRetention(dir_, 2, 1, {});
  EXPECT_THAT(Entries(), UnorderedElementsAre("step-5.attempt-1", "step-4.attempt-1"));
  ApplyRetention(dir_, 0, 1, {});  // the newest complete one always stays
  EXPECT_THAT(Entries(), UnorderedElementsAre("step-5.attempt-1"));
}

// "Keep-last-n evicts the last healthy one after NaNs."
TEST_F(Retention, KeepsTheNewestFiniteOne) {
  Save(1);
  Save(2);
  for (int step = 3; step <= 6; ++step) Save(step, 1, 1, /*finite=*/false);
  ApplyRetention(dir_, 2, 1, {});
  EXPECT_THAT(Entries(),
              UnorderedElementsAre("step-6.attempt-1", "step-5.attempt-1", "step-2.attempt-1"));
  Save(7);
  ApplyRetention(dir_, 1, 1, {});
  EXPECT_THAT(Entries(), UnorderedElementsAre("step-7.attempt-1"));
}

TEST_F(Retention, KeepsPinnedOnes) {
  for (int step = 1; step <= 4; ++step) Save(step);
  ApplyRetention(dir_, 1, 1, {dir_ + "/step-2.attempt-1", "step-1.attempt-1/"});
  EXPECT_THAT(Entries(),
              UnorderedElementsAre("step-4.attempt-1", "step-2.attempt-1", "step-1.attempt-1"));
}

TEST_F(Retention, LeavesHigherAttemptsAlone) {
  Save(1, 1);
  Save(2, 2);
  Save(3, 3);
  Save(9, 2);
  WriteShard(TemporaryDir(dir_, 4, 3), 0, {});
  ApplyRetention(dir_, 1, 2, {});
  EXPECT_THAT(Entries(), UnorderedElementsAre("step-9.attempt-2", "step-3.attempt-3",
                                              ".tmp-step-4.attempt-3"));
}

TEST_F(Retention, RemovesWhatWasAbandoned) {
  Save(5, 2);
  WriteShard(TemporaryDir(dir_, 7, 1), 0, {});  // lower attempt
  WriteShard(TemporaryDir(dir_, 4, 2), 0, {});  // a failed save of this attempt
  WriteShard(TemporaryDir(dir_, 6, 2), 0, {});  // may be under way
  std::filesystem::create_directories(dir_ + "/.trash-step-1.attempt-1/sub");
  std::filesystem::create_directories(dir_ + "/.trash-step-1.attempt-1.1");
  std::filesystem::create_directories(dir_ + "/notes");
  ApplyRetention(dir_, 1, 2, {});
  EXPECT_THAT(Entries(),
              UnorderedElementsAre("step-5.attempt-2", ".tmp-step-6.attempt-2", "notes"));
}

// A torn newest one neither counts nor goes: people may want to look at it.
TEST_F(Retention, TornOnesDoNotCountAndStay) {
  for (int step = 1; step <= 3; ++step) Save(step);
  std::filesystem::resize_file(dir_ + "/step-3.attempt-1/rank-00000.safetensors", 100);
  ApplyRetention(dir_, 1, 1, {});
  EXPECT_THAT(Entries(), UnorderedElementsAre("step-3.attempt-1", "step-2.attempt-1"));
}

// "Deletion of a checkpoint a resume is reading."
TEST_F(Retention, AnOpenReaderOutlivesTheDeletion) {
  Save(1);
  CheckpointReader reader(dir_ + "/step-1.attempt-1");
  Save(2);
  ApplyRetention(dir_, 1, 1, {});
  EXPECT_THAT(Entries(), UnorderedElementsAre("step-2.attempt-1"));
  ExpectState(reader, 1);
}

}  // namespace
}  // namespace coat
