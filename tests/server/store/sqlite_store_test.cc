#include "server/store/sqlite_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "server/jobs/job_record.h"
#include "tests/support/process.h"

namespace coat {
namespace {

using coatrack::v1::JobRow;

JobChange Change(int64_t sequence, coatrack::v1::JobState state, const std::string& request = "") {
  JobChange change;
  change.row.set_sequence(sequence);
  coatrack::v1::Job* job = change.row.mutable_job();
  job->set_id("job" + std::to_string(sequence));
  job->mutable_spec()->set_name("name");
  (*job->mutable_spec()->mutable_labels())["team"] = "a";
  job->set_state(state);
  job->set_request_id(request);
  if (IsTerminal(state)) *job->mutable_finished_at() = ToTimestamp(1000 + sequence);
  change.row.set_request_hash("hash");
  change.row.set_event_sequence(1);
  coatrack::v1::JobEvent& event = change.events.emplace_back();
  event.set_sequence(1);
  event.set_message("first");
  return change;
}

class SqliteStoreTest : public ::testing::Test {
 protected:
  void Open(int64_t max_pages = 0) {
    opened_ = {};
    Result<OpenedStore> opened = OpenSqliteStore({dir_.path().string(), max_pages});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    opened_ = std::move(*opened);
  }
  Status Commit(JobChange change) {
    std::promise<Status> done;
    opened_.store->Commit(std::move(change), [&](const Status& status) { done.set_value(status); });
    return done.get_future().get();
  }
  Result<JobRow> Read(int64_t sequence) {
    std::promise<Result<JobRow>> done;
    opened_.store->ReadJob(sequence, [&](Result<JobRow> row) { done.set_value(std::move(row)); });
    return done.get_future().get();
  }
  std::vector<coatrack::v1::JobEvent> Events(int64_t sequence, int64_t after = 0) {
    std::promise<std::vector<coatrack::v1::JobEvent>> done;
    opened_.store->ReadEvents(sequence, after, 10'000,
                              [&](Result<std::vector<coatrack::v1::JobEvent>> events) {
                                done.set_value(std::move(*events));
                              });
    return done.get_future().get();
  }
  void Sql(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(dir_.file("coatrack.db").c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << (error == nullptr ? "" : error);
    sqlite3_close(db);
  }

  testing::TempDir dir_;
  OpenedStore opened_;
};

TEST_F(SqliteStoreTest, RowsEventsAndEpochSurviveAReopening) {
  Open();
  EXPECT_EQ(opened_.state.epoch, 1);
  EXPECT_EQ(opened_.state.refusal, "");
  const std::string cluster = opened_.state.cluster_id;
  ASSERT_TRUE(Commit(Change(1, coatrack::v1::JOB_STATE_PENDING, "r1")).ok());
  ASSERT_TRUE(Commit(Change(2, coatrack::v1::JOB_STATE_SUCCEEDED, "r2")).ok());
  Open();
  EXPECT_EQ(opened_.state.epoch, 2);
  EXPECT_EQ(opened_.state.cluster_id, cluster);
  EXPECT_EQ(opened_.state.last_sequence, 2);
  ASSERT_EQ(opened_.state.live.size(), 1u);
  EXPECT_EQ(opened_.state.live[0].job().id(), "job1");
  ASSERT_EQ(opened_.state.finished.size(), 1u);
  EXPECT_EQ(opened_.state.finished[0].request_id, "r2");
  EXPECT_EQ(opened_.state.finished[0].labels.at("team"), "a");
  EXPECT_EQ(opened_.state.finished[0].finished_ms, 1002);
  EXPECT_EQ(Read(2)->job().id(), "job2");
  EXPECT_EQ(Events(2).size(), 1u);
  EXPECT_EQ(Read(3).status().code(), Code::kNotFound);
}

TEST_F(SqliteStoreTest, ARequestIdBelongsToOneJob) {
  Open();
  ASSERT_TRUE(Commit(Change(1, coatrack::v1::JOB_STATE_PENDING, "same")).ok());
  EXPECT_EQ(Commit(Change(2, coatrack::v1::JOB_STATE_PENDING, "same")).code(),
            Code::kAlreadyExists);
  EXPECT_EQ(Read(2).status().code(), Code::kNotFound) << "all or nothing";
  EXPECT_TRUE(Events(2).empty());
  EXPECT_TRUE(Commit(Change(3, coatrack::v1::JOB_STATE_PENDING, "")).ok());
  EXPECT_TRUE(Commit(Change(4, coatrack::v1::JOB_STATE_PENDING, "")).ok());
}

TEST_F(SqliteStoreTest, ChangesThatWaitShareACommitAndAFaultyOneFailsAlone) {
  Open();
  constexpr int kChanges = 2000;
  std::atomic<int> good{0};
  std::atomic<int> refused{0};
  std::promise<void> all;
  const auto started = std::chrono::steady_clock::now();
  for (int i = 1; i <= kChanges; ++i) {
    const bool twin = i % 100 == 0;
    JobChange change =
        Change(i, coatrack::v1::JOB_STATE_PENDING, "r" + std::to_string(twin ? i - 1 : i));
    opened_.store->Commit(std::move(change), [&](const Status& status) {
      status.ok() ? ++good : ++refused;
      if (good + refused == kChanges) all.set_value();
    });
  }
  all.get_future().get();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf("%d durable changes in %.3f s, %ld commits\n", kChanges, took.count(),
              opened_.store->Stats().commits);
  EXPECT_EQ(refused, kChanges / 100);
  EXPECT_LT(opened_.store->Stats().commits, kChanges / 10);
}

TEST_F(SqliteStoreTest, AnEmptyDatabaseBesideAClusterIdIsRefused) {
  Open();
  const std::string cluster = opened_.state.cluster_id;
  opened_ = {};
  for (const char* name : {"coatrack.db", "coatrack.db-wal", "coatrack.db-shm"}) {
    std::filesystem::remove(dir_.file(name));
  }
  Open();
  EXPECT_NE(opened_.state.refusal.find("the database is empty although"), std::string::npos);
  EXPECT_NE(opened_.state.refusal.find(cluster), std::string::npos);
  Open();
  EXPECT_NE(opened_.state.refusal, "") << "a second start must not accept it";
}

TEST_F(SqliteStoreTest, ACorruptRowIsSkippedAndNamed) {
  Open();
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(
        Commit(Change(i, i == 4 ? coatrack::v1::JOB_STATE_FAILED : coatrack::v1::JOB_STATE_PENDING))
            .ok());
  }
  opened_ = {};
  Sql("UPDATE job_rows SET row = x'00ff00ff' WHERE seq IN (2, 4)");
  Sql("DELETE FROM job_rows WHERE seq = 3");
  Open();
  ASSERT_EQ(opened_.state.live.size(), 1u);
  ASSERT_EQ(opened_.state.skipped.size(), 2u);
  EXPECT_NE(opened_.state.skipped[0].find("job job2"), std::string::npos);
  EXPECT_NE(opened_.state.skipped[0].find("job_rows, seq 2"), std::string::npos);
  const Result<JobRow> finished = Read(4);
  EXPECT_EQ(finished.status().code(), Code::kDataLoss);
  EXPECT_NE(finished.status().message().find("seq 4"), std::string::npos);
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsNamed) {
  std::ofstream(dir_.file("coatrack.db")) << std::string(8192, 'x');
  const Result<OpenedStore> opened = OpenSqliteStore({dir_.path().string(), 0});
  EXPECT_EQ(opened.status().code(), Code::kDataLoss);
  EXPECT_NE(opened.status().message().find("coatrack.db"), std::string::npos);
}

TEST_F(SqliteStoreTest, AFullDiskIsAClearErrorAndLosesNothing) {
  Open(/*max_pages=*/40);
  int written = 0;
  Status status;
  while (status.ok() && written < 1000) {
    JobChange change = Change(written + 1, coatrack::v1::JOB_STATE_PENDING);
    change.row.mutable_job()->set_message(std::string(2000, 'm'));
    status = Commit(std::move(change));
    written += status.ok();
  }
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("free space"), std::string::npos) << status.message();
  ASSERT_GT(written, 10);
  // Space again: the same change goes through, and everything acknowledged is there.
  Open();
  EXPECT_EQ(static_cast<int>(opened_.state.live.size()), written);
  EXPECT_TRUE(Commit(Change(written + 1, coatrack::v1::JOB_STATE_PENDING)).ok());
}

TEST_F(SqliteStoreTest, EventsOfAJobAreBounded) {
  Open();
  JobChange change = Change(1, coatrack::v1::JOB_STATE_PENDING);
  for (int64_t i = 2; i <= kMaxEventsPerJob + 50; ++i) {
    change.events.emplace_back().set_sequence(i);
  }
  change.row.set_event_sequence(kMaxEventsPerJob + 50);
  ASSERT_TRUE(Commit(change).ok());
  const auto events = Events(1);
  EXPECT_EQ(static_cast<int64_t>(events.size()), kMaxEventsPerJob);
  EXPECT_EQ(events.back().sequence(), kMaxEventsPerJob + 50);
  // A repeated change does not double anything.
  ASSERT_TRUE(Commit(change).ok());
  EXPECT_EQ(static_cast<int64_t>(Events(1).size()), kMaxEventsPerJob);
}

TEST_F(SqliteStoreTest, RemovedJobsAreGoneWithTheirEvents) {
  Open();
  ASSERT_TRUE(Commit(Change(1, coatrack::v1::JOB_STATE_FAILED, "again")).ok());
  std::promise<Status> done;
  opened_.store->Remove({1}, [&](const Status& status) { done.set_value(status); });
  EXPECT_TRUE(done.get_future().get().ok());
  EXPECT_EQ(Read(1).status().code(), Code::kNotFound);
  EXPECT_TRUE(Events(1).empty());
  EXPECT_TRUE(Commit(Change(2, coatrack::v1::JOB_STATE_PENDING, "again")).ok());
}

TEST_F(SqliteStoreTest, AHundredThousandFinishedJobsLoadInThreeSeconds) {
  Open();
  constexpr int kJobs = 100'000;
  std::promise<void> all;
  std::atomic<int> done{0};
  for (int i = 1; i <= kJobs; ++i) {
    JobChange change = Change(i, coatrack::v1::JOB_STATE_SUCCEEDED, "r" + std::to_string(i));
    change.row.mutable_job()->set_message(std::string(600, 'm'));
    opened_.store->Commit(std::move(change), [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      if (++done == kJobs) all.set_value();
    });
  }
  all.get_future().get();
  opened_ = {};
  const auto started = std::chrono::steady_clock::now();
  Open();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf("start with %d finished jobs: %.2f s\n", kJobs, took.count());
  EXPECT_EQ(static_cast<int>(opened_.state.finished.size()), kJobs);
  EXPECT_LT(took.count(), 3.0);
}

}  // namespace
}  // namespace coat
