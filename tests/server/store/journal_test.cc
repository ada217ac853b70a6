#include "server/store/journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "server/store/record_file.h"
#include "tests/support/process.h"

namespace coat {
namespace {

using coatrack::v1::StepRecord;

StepRecord Record(int64_t step, int32_t attempt, double loss, int32_t rank = 0) {
  StepRecord record;
  record.set_step(step);
  record.set_attempt(attempt);
  record.set_rank(rank);
  record.set_phase(coatrack::v1::PHASE_STEP);
  record.set_loss(loss);
  return record;
}

class JournalTest : public ::testing::Test {
 protected:
  void Open(JournalLimits limits = {}) {
    journal_.reset();
    journal_ = std::make_unique<Journal>(dir_.path().string(), limits);
  }
  void Append(std::vector<StepRecord> records) {
    std::promise<Status> done;
    journal_->AppendRecords("job", std::move(records), [&](Status s) { done.set_value(s); });
    ASSERT_TRUE(done.get_future().get().ok());
  }
  RecordPage Records(int64_t after = -1, RecordCursor cursor = {}) {
    std::promise<RecordPage> done;
    journal_->ReadRecords("job", after, cursor,
                          [&](Result<RecordPage> page) { done.set_value(std::move(*page)); });
    return done.get_future().get();
  }
  int64_t Log(int64_t offset, const std::string& data, bool final = false, int32_t attempt = 1,
              int64_t wall_ms = 0) {
    std::promise<int64_t> done;
    journal_->AppendLog({"job", attempt, 0}, {offset, data, final, false}, wall_ms,
                        [&](Result<int64_t> end) { done.set_value(end.ok() ? *end : -1); });
    return done.get_future().get();
  }
  LogChunk ReadLog(int64_t offset = 0, int32_t attempt = 1, int64_t since_ms = 0) {
    std::promise<LogChunk> done;
    journal_->ReadLog({"job", attempt, 0}, offset, 1 << 20, since_ms,
                      [&](Result<LogChunk> chunk) { done.set_value(std::move(*chunk)); });
    return done.get_future().get();
  }

  testing::TempDir dir_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalTest, RecordsOfAHigherAttemptReplaceThoseOfTheSameStep) {
  Open();
  Append({Record(1, 1, 5.0), Record(2, 1, 4.0), Record(3, 1, 3.0)});
  Append({Record(2, 2, 4.5)});
  const auto records = Records().records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].attempt(), 2);
  EXPECT_EQ(records[1].loss(), 4.5);
  EXPECT_EQ(records[2].attempt(), 1);
  EXPECT_EQ(Records(2).records.size(), 1u);
}

TEST_F(JournalTest, ACursorGetsWhatWasAppendedSince) {
  Open();
  Append({Record(1, 1, 5.0)});
  const RecordPage first = Records();
  EXPECT_TRUE(Records(-1, first.next).records.empty());
  Append({Record(2, 1, 4.0)});
  const auto more = Records(-1, first.next).records;
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].step(), 2);
}

TEST_F(JournalTest, CurvesSurviveARestartAndATornTail) {
  Open();
  Append({Record(1, 1, 5.0), Record(2, 1, 4.0)});
  journal_.reset();
  std::ofstream(dir_.file("jobs/job/records"), std::ios::app | std::ios::binary)
      << std::string("\x20\0\0", 3);
  Open();
  EXPECT_EQ(Records().records.size(), 2u);
  Append({Record(3, 1, 3.0)});
  EXPECT_EQ(Records().records.size(), 3u);
}

TEST_F(JournalTest, RecordsAreBoundedAndKeepWhatMatters) {
  JournalLimits limits;
  limits.records_bytes = 20'000;
  Open(limits);
  for (int i = 1; i <= 2000; ++i) {
    StepRecord record = Record(i, 1, 1.0 / i);
    if (i % 100 == 0) record.set_validation_loss(2.0);
    Append({record});
  }
  EXPECT_LE(std::filesystem::file_size(dir_.file("jobs/job/records")), 20'000u);
  const auto records = Records().records;
  int validations = 0;
  for (const StepRecord& record : records) validations += record.has_validation_loss();
  EXPECT_EQ(validations, 20);
  EXPECT_EQ(records.back().step(), 2000);
}

TEST_F(JournalTest, OtherRanksAreKeptOnlyWithMemoryOrHash) {
  Open();
  StepRecord memory = Record(2, 1, 1.0, 1);
  memory.add_memory()->set_kind("weights");
  Append({Record(1, 1, 1.0, 1), memory});
  ASSERT_EQ(Records().records.size(), 1u);
  EXPECT_EQ(Records().records[0].rank(), 1);
}

TEST_F(JournalTest, LogsAppendCutOverlapsAndResume) {
  Open();
  EXPECT_EQ(Log(0, "hello "), 6);
  EXPECT_EQ(Log(0, "hello "), 6) << "a repeated push";
  EXPECT_EQ(Log(3, "lo world"), 11);
  EXPECT_EQ(ReadLog().data, "hello world");
  EXPECT_EQ(ReadLog(6).data, "world");
  EXPECT_FALSE(ReadLog().final);
  Log(11, "", /*final=*/true);
  EXPECT_TRUE(ReadLog().final);
  Open();
  EXPECT_EQ(ReadLog().data, "hello world");
  EXPECT_TRUE(ReadLog().final);
  EXPECT_FALSE(ReadLog().truncated);
}

TEST_F(JournalTest, AGapIsSaid) {
  Open();
  Log(0, "early");
  EXPECT_EQ(Log(1000, "tail without newline", true), 1020);
  const LogChunk chunk = ReadLog();
  EXPECT_EQ(chunk.offset, 1000);
  EXPECT_EQ(chunk.data, "tail without newline");
  EXPECT_TRUE(chunk.truncated);
}

TEST_F(JournalTest, LogsAreBounded) {
  JournalLimits limits;
  limits.log_bytes = 1000;
  Open(limits);
  int64_t end = 0;
  for (int i = 0; i < 100; ++i) end = Log(end, std::string(99, 'a' + i % 26) + "\n");
  EXPECT_EQ(end, 10'000);
  EXPECT_LE(std::filesystem::file_size(dir_.file("jobs/job/log-1-0")), 1016u);
  const LogChunk chunk = ReadLog();
  EXPECT_TRUE(chunk.truncated);
  EXPECT_EQ(chunk.offset + static_cast<int64_t>(chunk.data.size()), 10'000);
}

TEST_F(JournalTest, OldAttemptsGo) {
  JournalLimits limits;
  limits.attempts = 2;
  Open(limits);
  for (int attempt = 1; attempt <= 4; ++attempt) Log(0, "x", true, attempt);
  EXPECT_EQ(ReadLog(0, 0).next_attempt, 3);
  EXPECT_EQ(ReadLog(0, 3).next_attempt, 4);
  EXPECT_EQ(ReadLog(0, 4).next_attempt, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("jobs/job/log-2-0")));
}

TEST_F(JournalTest, SinceSkipsWhatArrivedEarlier) {
  Open();
  Log(0, "old\n", false, 1, 1000);
  Log(4, "new\n", false, 1, 2000);
  EXPECT_EQ(ReadLog(0, 1, 1500).data, "new\n");
  EXPECT_EQ(ReadLog(0, 1, 2500).data, "");
}

TEST_F(JournalTest, AJobThatLeftMemoryIsReadFromItsFiles) {
  Open({.open_jobs = 1});
  Append({Record(1, 1, 5)});
  EXPECT_EQ(Log(0, "one\n"), 4);
  const RecordPage first = Records();
  std::promise<Status> other;
  journal_->AppendRecords("other", {Record(1, 1, 4)}, [&](Status s) { other.set_value(s); });
  ASSERT_TRUE(other.get_future().get().ok());
  Append({Record(2, 1, 4.5)});
  EXPECT_EQ(Log(4, "two\n", true), 8);
  EXPECT_EQ(ReadLog().data, "one\ntwo\n");
  EXPECT_TRUE(ReadLog().final);
  const RecordPage again = Records(1, first.next);
  ASSERT_EQ(again.records.size(), 1u) << "an old cursor starts anew, after the step it names";
  EXPECT_EQ(again.records[0].step(), 2);
}

TEST_F(JournalTest, RemovedJobsLeaveNoFiles) {
  Open();
  Log(0, "x");
  Append({Record(1, 1, 1.0)});
  journal_->Remove({"job"});
  EXPECT_TRUE(Records().records.empty());
  EXPECT_FALSE(std::filesystem::exists(dir_.file("jobs/job")));
}

}  // namespace
}  // namespace coat
