// Step records and output of jobs, in bounded files beside the database (PROTOCOLS.md section 6).
//
//   <state>/jobs/<id>/records           4-byte little-endian length + serialized StepRecord,
//   repeated <state>/jobs/<id>/log-<attempt>-<rank>   16 bytes (magic, flags, offset of the first
//   byte), text
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "configs/base/status.h"
#include "server/store/work_queue.h"

namespace coat {

struct JournalLimits {
  int64_t records_bytes = 16 << 20;  // of a job; above it older plain steps are thinned out
  int64_t log_bytes = 1 << 20;       // of a rank in an attempt; above it the older half goes
  int32_t attempts = 5;              // with logs; those of older attempts are removed
  // Known in memory; of the others only the files are there, and are read again when asked for.
  // More than can run at a time.
  size_t open_jobs = 16'384;
};

struct LogKey {
  std::string job;
  int32_t attempt = 0;
  int32_t rank = 0;
  auto operator<=>(const LogKey&) const = default;
};
struct LogPiece {
  int64_t offset = 0;
  std::string data;
  bool final = false;      // no more will come after this data
  bool truncated = false;  // what comes before this data was dropped or never arrived
};
struct LogChunk {
  int64_t offset = 0;  // of data
  std::string data;
  int64_t end = 0;           // of what is held
  bool final = false;        // the log ends at `end`
  bool truncated = false;    // bytes between the asked offset and `offset` are missing
  int32_t next_attempt = 0;  // that has output of this rank; 0: none
};

struct RecordCursor {
  int64_t generation = 0;
  int64_t offset = 0;  // 0: from the beginning, merged
};
struct RecordPage {
  std::vector<coatrack::v1::StepRecord> records;
  RecordCursor next;
};

// Thread-safe; nothing blocks, callbacks come from the journal's one thread. Errors are kIo and
// kResourceExhausted and name the file.
class Journal {
 public:
  Journal(std::string state_dir, JournalLimits limits);
  // Finishes what waits.
  ~Journal();

  // Ranks above 0 are kept only where they carry memory, health or a weights hash.
  void AppendRecords(const std::string& job, std::vector<coatrack::v1::StepRecord> records,
                     std::function<void(Status)> done);
  // From the beginning: one record for each (step, rank, phase), of the highest attempt, steps
  // after `after_step`, by step. From a cursor: what was appended since, as it came.
  void ReadRecords(const std::string& job, int64_t after_step, RecordCursor cursor,
                   std::function<void(Result<RecordPage>)> done);

  // Returns the offset to go on with. A gap drops what is held; an overlap is cut.
  void AppendLog(const LogKey& key, LogPiece piece, int64_t wall_ms,
                 std::function<void(Result<int64_t>)> done);
  // At most `max_bytes` from `offset`. An unknown log is empty. `since_ms` (wall; 0: none) skips
  // what arrived earlier.
  void ReadLog(const LogKey& key, int64_t offset, int64_t max_bytes, int64_t since_ms,
               std::function<void(Result<LogChunk>)> done);

  void Remove(std::vector<std::string> jobs);

 private:
  struct Log {
    int64_t start = 0;
    int64_t end = 0;
    bool final = false;
    bool truncated = false;
    std::vector<std::pair<int64_t, int64_t>> arrivals;  // (offset, wall ms), the newest
  };
  struct JobFiles {
    int64_t generation = 0;  // of the record file's layout, unique over all jobs
    int64_t records_bytes = 0;
    std::map<std::pair<int32_t, int32_t>, Log> logs;  // (attempt, rank)
    std::list<std::string>::iterator use;             // in recent_
  };

  JobFiles& Open(const std::string& job);  // valid until the next call
  void Close(const std::string& job);
  std::string Folder(const std::string& job) const;
  std::string LogPath(const LogKey& key) const;
  Status DoAppendRecords(const std::string& job,
                         const std::vector<coatrack::v1::StepRecord>& records);
  Result<RecordPage> DoReadRecords(const std::string& job, int64_t after_step, RecordCursor cursor);
  Result<int64_t> DoAppendLog(const LogKey& key, LogPiece piece, int64_t wall_ms);
  Result<LogChunk> DoReadLog(const LogKey& key, int64_t offset, int64_t max_bytes,
                             int64_t since_ms);
  Status ThinRecords(const std::string& job, JobFiles* files);
  void DropOldAttempts(const LogKey& key, JobFiles* files);

  const std::string state_dir_;
  const JournalLimits limits_;
  std::map<std::string, JobFiles> jobs_;
  std::list<std::string> recent_;  // the keys of jobs_, last used first
  int64_t generations_ = 0;
  std::unique_ptr<WorkQueue<std::function<void()>>> queue_;
};

}  // namespace coat
