// Tables of the coordinator's database, and what a start does with them.
//
//   meta(key, value)                      schema, epoch, cluster_id
//   jobs(seq, id, name, state, live, request_id, request_hash, labels, finished_ms)
//   job_rows(seq, row, checksum)          serialized JobRow, FNV-1a of its bytes
//   events(seq, sequence, event)          serialized JobEvent
//
// The small table holds what lists need, so that 100,000 finished jobs load without their rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/store/sqlite_db.h"
#include "server/store/store.h"

namespace coat {

inline constexpr int64_t kSchemaVersion = 1;

// FNV-1a, 64 bits, as SQLite stores it.
int64_t RowChecksum(std::string_view bytes);

// "k=v" lines and back.
std::string JoinLabels(const std::map<std::string, std::string>& labels);
std::map<std::string, std::string> SplitLabels(std::string_view text);

// Creates what is missing, checks the schema version, increments the epoch, compares the cluster id
// with the file `cluster_id` in `state_dir` (written for a new database), loads. Durable on return.
Result<LoadedState> StartDatabase(SqliteDb* db, const std::string& state_dir);

// The row of `sequence`; kNotFound, or kDataLoss naming it.
Result<coatrack::v1::JobRow> ParseRow(int64_t sequence, const std::string& bytes, int64_t checksum);

}  // namespace coat
