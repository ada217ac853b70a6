#include "client/render/history.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

using coatrack::v1::StepRecord;

StepRecord Record(int64_t step, double loss, int attempt = 1) {
  StepRecord record;
  record.set_step(step);
  record.set_attempt(attempt);
  record.set_loss(loss);
  record.set_tokens(100);
  record.set_tokens_total(100 * step);
  record.set_step_seconds(0.5);
  return record;
}

std::vector<double> Losses(const RunHistory& history) {
  std::vector<double> losses;
  for (const PlotPoint& point : history.Losses()) losses.push_back(point.y);
  return losses;
}

TEST(RunHistoryTest, ALaterAttemptReplacesTheStepsItRepeats) {
  RunHistory history;
  for (int step = 1; step <= 5; ++step) history.Add(Record(step, step));
  history.Add(Record(3, 30, 2));
  EXPECT_EQ(Losses(history), (std::vector<double>{1, 2, 30}));
  EXPECT_EQ(history.newest()->step(), 3);
}

TEST(RunHistoryTest, OtherRanksDoNotCount) {
  RunHistory history;
  StepRecord other = Record(1, 9);
  other.set_rank(1);
  history.Add(other);
  EXPECT_TRUE(history.empty());
}

TEST(RunHistoryTest, ARepeatedRecordAddsNothing) {
  RunHistory history;
  StepRecord record = Record(1, 2);
  record.add_memory()->set_bytes(5);
  history.Add(record);
  history.Add(record);
  EXPECT_EQ(history.newest_memory()->memory_size(), 1);
}

TEST(RunHistoryTest, RecordsOfOneStepAreJoined) {
  RunHistory history;
  history.Add(Record(1, 2));
  StepRecord saved;
  saved.set_step(1);
  saved.set_attempt(1);
  saved.set_checkpoint("/ckpt/j/step-1.attempt-1");
  EXPECT_EQ(history.newest_checkpoint(), nullptr);
  history.Add(saved);
  ASSERT_EQ(history.Records().size(), 1u);
  EXPECT_EQ(history.Records()[0].loss(), 2);
  EXPECT_EQ(history.newest_checkpoint()->checkpoint(), "/ckpt/j/step-1.attempt-1");
}

TEST(RunHistoryTest, KnowsSpeedAndValidation) {
  RunHistory history;
  EXPECT_EQ(history.newest(), nullptr);
  EXPECT_EQ(history.seconds_per_step(), 0);
  StepRecord start;
  start.set_validation_loss(5.5);
  history.Add(start);
  for (int step = 1; step <= 40; ++step) history.Add(Record(step, 3));
  StepRecord end = Record(40, 3);
  end.set_validation_loss(2.25);
  history.Add(end);
  EXPECT_EQ(history.first_validation_loss(), 5.5);
  EXPECT_EQ(history.last_validation_loss(), 2.25);
  EXPECT_DOUBLE_EQ(history.tokens_per_second(), 200);
  EXPECT_DOUBLE_EQ(history.seconds_per_step(), 0.5);
  EXPECT_EQ(history.tokens_total(), 4000);
  EXPECT_DOUBLE_EQ(history.step_seconds_total(), 20);
}

}  // namespace
}  // namespace coat
