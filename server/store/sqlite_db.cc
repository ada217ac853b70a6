#include "server/store/sqlite_db.h"

#include <utility>

namespace coat {

Result<std::unique_ptr<SqliteDb>> SqliteDb::Open(const std::string& path, bool read_only) {
  sqlite3* raw = nullptr;
  const int flags =
      (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
      SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  std::unique_ptr<SqliteDb> db(new SqliteDb(raw, path));
  if (code != SQLITE_OK) return db->LastError("open");
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 10'000);
  if (!read_only) {
    RETURN_IF_ERROR(db->Exec("PRAGMA journal_mode=WAL"));
    RETURN_IF_ERROR(db->Exec("PRAGMA synchronous=FULL"));
  }
  return db;
}

SqliteDb::~SqliteDb() { sqlite3_close_v2(db_); }

Status SqliteDb::Exec(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return LastError(sql);
  return {};
}

Result<SqliteStatement> SqliteDb::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &statement, nullptr) != SQLITE_OK) {
    return LastError(sql);
  }
  return SqliteStatement(this, statement);
}

int SqliteDb::last_code() const { return sqlite3_extended_errcode(db_); }

Status SqliteDb::LastError(std::string_view what) const {
  const int code = sqlite3_extended_errcode(db_);
  const std::string text =
      path_ + ": " + sqlite3_errmsg(db_) + " (in: " + std::string(what.substr(0, 80)) + ")";
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {Code::kResourceExhausted, text + "; free space on the disk of the state folder"};
    case SQLITE_CONSTRAINT: return {Code::kAlreadyExists, text};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {Code::kDataLoss, text + "; restore the database from a backup, or move it away"};
    default: return {Code::kIo, text};
  }
}

SqliteStatement& SqliteStatement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index + 1, value);
  return *this;
}
SqliteStatement& SqliteStatement::Bind(int index, std::string_view text) {
  sqlite3_bind_text(statement_.get(), index + 1, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
  return *this;
}
SqliteStatement& SqliteStatement::BindBlob(int index, std::string_view bytes) {
  sqlite3_bind_blob(statement_.get(), index + 1, bytes.data(), static_cast<int>(bytes.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

Result<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  Status status = code == SQLITE_DONE ? Status() : db_->LastError(sqlite3_sql(statement_.get()));
  Reset();
  if (!status.ok()) return status;
  return false;
}

Status SqliteStatement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return {};
  }
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

int64_t SqliteStatement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
std::string SqliteStatement::Text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, sqlite3_column_bytes(statement_.get(), column));
}

}  // namespace coat
