// RAII over SQLite's C API. One thread at a time uses a connection.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "configs/base/status.h"

namespace coat {

class SqliteStatement;

class SqliteDb {
 public:
  // Opens or creates `path` in WAL mode with full synchronization. Errors name the file.
  static Result<std::unique_ptr<SqliteDb>> Open(const std::string& path, bool read_only);
  ~SqliteDb();
  SqliteDb(const SqliteDb&) = delete;
  SqliteDb& operator=(const SqliteDb&) = delete;

  Status Exec(const char* sql);
  Result<SqliteStatement> Prepare(std::string_view sql);
  // kResourceExhausted for a full disk, kAlreadyExists for a broken unique constraint, kDataLoss
  // for a corrupt file, else kIo.
  Status LastError(std::string_view what) const;
  int last_code() const;

 private:
  SqliteDb(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  sqlite3* db_;
  std::string path_;
};

// Parameters and columns count from 0. Bound text must live until the next Reset or Step's end.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  SqliteStatement(SqliteDb* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}

  SqliteStatement& Bind(int index, int64_t value);
  SqliteStatement& Bind(int index, std::string_view text);
  SqliteStatement& BindBlob(int index, std::string_view bytes);
  // Runs to the end and resets.
  Status Run();
  // True while there is a row; resets at the end.
  Result<bool> Step();
  void Reset();
  int64_t Int(int column) const;
  std::string Text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  SqliteDb* db_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace coat
