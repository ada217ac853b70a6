#include "server/store/sqlite_schema.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace coat {
namespace {

constexpr char kCreate[] = R"sql(
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, state INTEGER NOT NULL,
  live INTEGER NOT NULL, request_id TEXT NOT NULL, request_hash TEXT NOT NULL,
  labels TEXT NOT NULL, finished_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_request ON jobs(request_id) WHERE request_id != '';
CREATE INDEX IF NOT EXISTS jobs_live ON jobs(live) WHERE live = 1;
CREATE TABLE IF NOT EXISTS job_rows(
  seq INTEGER PRIMARY KEY, row BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS events(
  seq INTEGER NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL,
  PRIMARY KEY(seq, sequence)) WITHOUT ROWID;
)sql";

Result<std::string> ReadMeta(SqliteDb* db, std::string_view key) {
  ASSIGN_OR_RETURN(auto query, db->Prepare("SELECT value FROM meta WHERE key = ?"));
  ASSIGN_OR_RETURN(const bool found, query.Bind(0, key).Step());
  std::string value = found ? query.Text(0) : std::string();
  return value;
}

Status WriteMeta(SqliteDb* db, std::string_view key, std::string_view value) {
  ASSIGN_OR_RETURN(auto insert, db->Prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)"));
  return insert.Bind(0, key).Bind(1, value).Run();
}

std::string NewClusterId() {
  std::random_device random;
  std::ostringstream id;
  for (int i = 0; i < 4; ++i) {
    id.width(8);
    id.fill('0');
    id << std::hex << random();
  }
  return id.str();
}

Status WriteDurably(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
              fsync(fd) == 0;
  if (fd >= 0) close(fd);
  good = good && rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) return {Code::kIo, path + ": " + std::strerror(errno)};
  return {};
}

Status CheckClusterId(SqliteDb* db, const std::string& state_dir, LoadedState* state) {
  const std::string path = state_dir + "/cluster_id";
  std::string from_file;
  std::ifstream(path) >> from_file;
  ASSIGN_OR_RETURN(state->cluster_id, ReadMeta(db, "cluster_id"));
  if (state->cluster_id.empty() && from_file.empty()) {
    state->cluster_id = NewClusterId();
    RETURN_IF_ERROR(WriteMeta(db, "cluster_id", state->cluster_id));
    return WriteDurably(path, state->cluster_id + "\n");
  }
  if (from_file.empty()) return WriteDurably(path, state->cluster_id + "\n");
  if (state->cluster_id != from_file) {
    state->refusal = state->cluster_id.empty()
                         ? "the database is empty although " + path + " names cluster " + from_file
                         : "the database belongs to cluster " + state->cluster_id + ", but " +
                               path + " names " + from_file;
    state->refusal +=
        "; restore coatrack.db, or remove the file to give the jobs of that cluster up";
  }
  return {};
}

Status LoadLive(SqliteDb* db, LoadedState* state) {
  ASSIGN_OR_RETURN(auto query,
                   db->Prepare("SELECT j.seq, j.id, r.row, r.checksum, r.seq IS NULL FROM jobs j "
                               "LEFT JOIN job_rows r ON r.seq = j.seq WHERE j.live = 1 "
                               "ORDER BY j.seq"));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, query.Step());
    if (!more) return {};
    Result<coatrack::v1::JobRow> row =
        query.Int(4) != 0 ? Result<coatrack::v1::JobRow>(Status(Code::kDataLoss, "row is missing"))
                          : ParseRow(query.Int(0), query.Text(2), query.Int(3));
    if (row.ok()) {
      state->live.push_back(std::move(*row));
    } else {
      state->skipped.push_back("job " + query.Text(1) + ": " + row.status().message());
    }
  }
}

Status LoadFinished(SqliteDb* db, LoadedState* state) {
  ASSIGN_OR_RETURN(auto query,
                   db->Prepare("SELECT seq, id, name, state, request_id, request_hash, labels, "
                               "finished_ms FROM jobs WHERE live = 0 ORDER BY seq"));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, query.Step());
    if (!more) return {};
    FinishedJob& job = state->finished.emplace_back();
    job.sequence = query.Int(0);
    job.id = query.Text(1);
    job.name = query.Text(2);
    job.state = static_cast<coatrack::v1::JobState>(query.Int(3));
    job.request_id = query.Text(4);
    job.request_hash = query.Text(5);
    job.labels = SplitLabels(query.Text(6));
    job.finished_ms = query.Int(7);
  }
}

}  // namespace

int64_t RowChecksum(std::string_view bytes) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  return static_cast<int64_t>(hash);
}

std::string JoinLabels(const std::map<std::string, std::string>& labels) {
  std::string text;
  for (const auto& [name, value] : labels) text += name + "=" + value + "\n";
  return text;
}

std::map<std::string, std::string> SplitLabels(std::string_view text) {
  std::map<std::string, std::string> labels;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      labels[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1));
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return labels;
}

Result<coatrack::v1::JobRow> ParseRow(int64_t sequence, const std::string& bytes,
                                      int64_t checksum) {
  const std::string place = "coatrack.db, table job_rows, seq " + std::to_string(sequence);
  if (RowChecksum(bytes) != checksum) {
    return Status(Code::kDataLoss, place + ": the row is corrupt (checksum differs)");
  }
  coatrack::v1::JobRow row;
  if (!row.ParseFromString(bytes) || row.sequence() != sequence) {
    return Status(Code::kDataLoss, place + ": the row is corrupt (not a JobRow of this sequence)");
  }
  return row;
}

Result<LoadedState> StartDatabase(SqliteDb* db, const std::string& state_dir) {
  LoadedState state;
  RETURN_IF_ERROR(db->Exec(kCreate));
  RETURN_IF_ERROR(db->Exec("BEGIN IMMEDIATE"));
  ASSIGN_OR_RETURN(const std::string schema, ReadMeta(db, "schema"));
  if (!schema.empty() && schema != std::to_string(kSchemaVersion)) {
    return Status(Code::kFailedPrecondition,
                  state_dir + "/coatrack.db has schema " + schema + ", this program knows " +
                      std::to_string(kSchemaVersion) + "; use the program that wrote it");
  }
  RETURN_IF_ERROR(WriteMeta(db, "schema", std::to_string(kSchemaVersion)));
  RETURN_IF_ERROR(CheckClusterId(db, state_dir, &state));
  ASSIGN_OR_RETURN(const std::string epoch, ReadMeta(db, "epoch"));
  state.epoch = (epoch.empty() ? 0 : std::stoll(epoch)) + 1;
  RETURN_IF_ERROR(WriteMeta(db, "epoch", std::to_string(state.epoch)));
  RETURN_IF_ERROR(db->Exec("COMMIT"));
  RETURN_IF_ERROR(LoadLive(db, &state));
  RETURN_IF_ERROR(LoadFinished(db, &state));
  ASSIGN_OR_RETURN(auto last, db->Prepare("SELECT IFNULL(MAX(seq), 0) FROM jobs"));
  ASSIGN_OR_RETURN(const bool found, last.Step());
  state.last_sequence = found ? last.Int(0) : 0;
  return state;
}

}  // namespace coat
