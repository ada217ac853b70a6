#include "server/store/sqlite_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <variant>

#include "server/jobs/job_record.h"
#include "server/store/sqlite_schema.h"
#include "server/store/work_queue.h"

namespace coat {
namespace {

constexpr size_t kMaxChangesPerCommit = 4096;

// Prepared statements of the writer's connection.
struct WriteStatements {
  SqliteStatement put_job, put_row, put_event, trim_events;
  SqliteStatement remove_job, remove_row, remove_events;

  Status Prepare(SqliteDb* db) {
    const std::pair<SqliteStatement*, const char*> all[] = {
        {&put_job,
         "INSERT INTO jobs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(seq) DO UPDATE SET "
         "state = excluded.state, live = excluded.live, finished_ms = excluded.finished_ms"},
        {&put_row, "INSERT OR REPLACE INTO job_rows VALUES(?, ?, ?)"},
        {&put_event, "INSERT OR REPLACE INTO events VALUES(?, ?, ?)"},
        {&trim_events, "DELETE FROM events WHERE seq = ? AND sequence <= ?"},
        {&remove_job, "DELETE FROM jobs WHERE seq = ?"},
        {&remove_row, "DELETE FROM job_rows WHERE seq = ?"},
        {&remove_events, "DELETE FROM events WHERE seq = ?"},
    };
    for (const auto& [statement, sql] : all) {
      ASSIGN_OR_RETURN(*statement, db->Prepare(sql));
    }
    return {};
  }
};

struct WriteTask {
  JobChange change;
  std::vector<int64_t> removed;  // not empty: a removal
  StoreDone done;
  Status status;
};
using ReadTask = std::function<void()>;

class SqliteStore final : public Store {
 public:
  SqliteStore(std::unique_ptr<SqliteDb> write_db, std::unique_ptr<SqliteDb> read_db,
              WriteStatements statements)
      : write_db_(std::move(write_db)),
        read_db_(std::move(read_db)),
        statements_(std::move(statements)) {
    stats_.buckets.assign(std::size(kCommitBounds) + 1, 0);
    reader_ = std::make_unique<WorkQueue<ReadTask>>([](std::vector<ReadTask> tasks) {
      for (ReadTask& task : tasks) task();
    });
    writer_ = std::make_unique<WorkQueue<WriteTask>>(
        [this](std::vector<WriteTask> tasks) { WriteAll(std::move(tasks)); });
  }
  ~SqliteStore() override {
    writer_.reset();
    reader_.reset();
  }

  void Commit(JobChange change, StoreDone done) override {
    writer_->Push({std::move(change), {}, std::move(done), {}});
  }
  void Remove(std::vector<int64_t> sequences, StoreDone done) override {
    if (sequences.empty()) return done({});
    writer_->Push({{}, std::move(sequences), std::move(done), {}});
  }
  void ReadJob(int64_t sequence, std::function<void(Result<coatrack::v1::JobRow>)> done) override {
    reader_->Push([this, sequence, done = std::move(done)] { done(LoadRow(sequence)); });
  }
  void ReadJobs(std::vector<int64_t> sequences,
                std::function<void(Result<std::vector<coatrack::v1::JobRow>>)> done) override {
    reader_->Push([this, sequences = std::move(sequences), done = std::move(done)] {
      std::vector<coatrack::v1::JobRow> rows;
      for (const int64_t sequence : sequences) {
        Result<coatrack::v1::JobRow> row = LoadRow(sequence);
        if (row.ok()) rows.push_back(std::move(*row));
      }
      done(std::move(rows));
    });
  }
  void ReadEvents(int64_t sequence, int64_t after, int32_t limit,
                  std::function<void(Result<std::vector<coatrack::v1::JobEvent>>)> done) override {
    reader_->Push([this, sequence, after, limit, done = std::move(done)] {
      done(LoadEvents(sequence, after, limit));
    });
  }
  CommitStats Stats() const override {
    std::lock_guard<std::mutex> lock(stats_mutex_);
    return stats_;
  }

 private:
  void WriteAll(std::vector<WriteTask> tasks) {
    for (size_t begin = 0; begin < tasks.size(); begin += kMaxChangesPerCommit) {
      const size_t end = std::min(tasks.size(), begin + kMaxChangesPerCommit);
      const auto started = std::chrono::steady_clock::now();
      const Status status = WriteBatch(&tasks[begin], &tasks[begin] + (end - begin));
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
      Count(seconds.count(), static_cast<int64_t>(end - begin), status.ok());
      for (size_t i = begin; i < end; ++i) {
        tasks[i].done(status.ok() ? tasks[i].status : status);
      }
    }
  }

  // One transaction; a failing change is undone alone, unless the disk is the reason.
  Status WriteBatch(WriteTask* begin, WriteTask* end) {
    RETURN_IF_ERROR(write_db_->Exec("BEGIN IMMEDIATE"));
    Status status;
    for (WriteTask* task = begin; task != end && status.ok(); ++task) {
      status = write_db_->Exec("SAVEPOINT change");
      if (!status.ok()) break;
      task->status = task->removed.empty() ? Write(task->change) : Delete(task->removed);
      if (task->status.code() == Code::kAlreadyExists) {
        status = write_db_->Exec("ROLLBACK TO change; RELEASE change");
      } else if (!task->status.ok()) {
        status = task->status;
      } else {
        status = write_db_->Exec("RELEASE change");
      }
    }
    if (status.ok()) status = write_db_->Exec("COMMIT");
    // A full disk may have rolled back already; then this only says so.
    if (!status.ok()) static_cast<void>(write_db_->Exec("ROLLBACK"));
    return status;
  }

  Status Write(const JobChange& change) {
    const coatrack::v1::JobRow& row = change.row;
    const FinishedJob summary = Summarize(row);
    const bool live = !IsTerminal(summary.state);
    RETURN_IF_ERROR(statements_.put_job.Bind(0, row.sequence())
                        .Bind(1, summary.id)
                        .Bind(2, summary.name)
                        .Bind(3, static_cast<int64_t>(summary.state))
                        .Bind(4, static_cast<int64_t>(live))
                        .Bind(5, summary.request_id)
                        .Bind(6, summary.request_hash)
                        .Bind(7, JoinLabels(summary.labels))
                        .Bind(8, summary.finished_ms)
                        .Run());
    std::string bytes = row.SerializeAsString();
    RETURN_IF_ERROR(statements_.put_row.Bind(0, row.sequence())
                        .BindBlob(1, bytes)
                        .Bind(2, RowChecksum(bytes))
                        .Run());
    for (const coatrack::v1::JobEvent& event : change.events) {
      bytes = event.SerializeAsString();
      RETURN_IF_ERROR(statements_.put_event.Bind(0, row.sequence())
                          .Bind(1, event.sequence())
                          .BindBlob(2, bytes)
                          .Run());
    }
    if (row.event_sequence() <= kMaxEventsPerJob) return {};
    return statements_.trim_events.Bind(0, row.sequence())
        .Bind(1, row.event_sequence() - kMaxEventsPerJob)
        .Run();
  }

  Status Delete(const std::vector<int64_t>& sequences) {
    for (const int64_t sequence : sequences) {
      RETURN_IF_ERROR(statements_.remove_job.Bind(0, sequence).Run());
      RETURN_IF_ERROR(statements_.remove_row.Bind(0, sequence).Run());
      RETURN_IF_ERROR(statements_.remove_events.Bind(0, sequence).Run());
    }
    return {};
  }

  Result<coatrack::v1::JobRow> LoadRow(int64_t sequence) {
    ASSIGN_OR_RETURN(auto query,
                     read_db_->Prepare("SELECT row, checksum FROM job_rows WHERE seq = ?"));
    ASSIGN_OR_RETURN(const bool found, query.Bind(0, sequence).Step());
    if (!found) return Status(Code::kNotFound, "no job row " + std::to_string(sequence));
    return ParseRow(sequence, query.Text(0), query.Int(1));
  }

  Result<std::vector<coatrack::v1::JobEvent>> LoadEvents(int64_t sequence, int64_t after,
                                                         int32_t limit) {
    ASSIGN_OR_RETURN(auto query,
                     read_db_->Prepare("SELECT event FROM events WHERE seq = ? AND sequence > ? "
                                       "ORDER BY sequence LIMIT ?"));
    query.Bind(0, sequence).Bind(1, after).Bind(2, static_cast<int64_t>(limit));
    std::vector<coatrack::v1::JobEvent> events;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, query.Step());
      if (!more) return events;
      coatrack::v1::JobEvent event;
      if (event.ParseFromString(query.Text(0))) events.push_back(std::move(event));
    }
  }

  void Count(double seconds, int64_t changes, bool good) {
    std::lock_guard<std::mutex> lock(stats_mutex_);
    ++stats_.commits;
    stats_.changes += changes;
    stats_.failures += !good;
    stats_.seconds_total += seconds;
    const auto* bound =
        std::lower_bound(std::begin(kCommitBounds), std::end(kCommitBounds), seconds);
    ++stats_.buckets[bound - std::begin(kCommitBounds)];
  }

  std::unique_ptr<SqliteDb> write_db_;
  std::unique_ptr<SqliteDb> read_db_;
  WriteStatements statements_;
  mutable std::mutex stats_mutex_;
  CommitStats stats_;
  std::unique_ptr<WorkQueue<ReadTask>> reader_;
  std::unique_ptr<WorkQueue<WriteTask>> writer_;
};

}  // namespace

FinishedJob Summarize(const coatrack::v1::JobRow& row) {
  FinishedJob summary;
  summary.sequence = row.sequence();
  summary.id = row.job().id();
  summary.name = row.job().spec().name();
  summary.request_id = row.job().request_id();
  summary.request_hash = row.request_hash();
  summary.state = row.job().state();
  if (row.job().has_finished_at()) summary.finished_ms = ToWallMs(row.job().finished_at());
  summary.labels.insert(row.job().spec().labels().begin(), row.job().spec().labels().end());
  return summary;
}

Result<OpenedStore> OpenSqliteStore(const SqliteOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.state_dir, error);
  if (error) return Status(Code::kIo, options.state_dir + ": " + error.message());
  const std::string path = options.state_dir + "/coatrack.db";
  OpenedStore opened;
  ASSIGN_OR_RETURN(auto write_db, SqliteDb::Open(path, /*read_only=*/false));
  ASSIGN_OR_RETURN(opened.state, StartDatabase(write_db.get(), options.state_dir));
  if (options.max_pages > 0) {
    const std::string limit = "PRAGMA max_page_count=" + std::to_string(options.max_pages);
    RETURN_IF_ERROR(write_db->Exec(limit.c_str()));
  }
  ASSIGN_OR_RETURN(auto read_db, SqliteDb::Open(path, /*read_only=*/true));
  WriteStatements statements;
  RETURN_IF_ERROR(statements.Prepare(write_db.get()));
  opened.store =
      std::make_unique<SqliteStore>(std::move(write_db), std::move(read_db), std::move(statements));
  return opened;
}

}  // namespace coat
