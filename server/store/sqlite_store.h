// Store over SQLite: WAL, full synchronization, group commit.
#pragma once

#include <memory>
#include <string>

#include "server/store/store.h"

namespace coat {

struct SqliteOptions {
  std::string state_dir;  // created if missing
  int64_t max_pages = 0;  // bound of the database in 4 KiB pages; 0: the disk's size
};

struct OpenedStore {
  std::unique_ptr<Store> store;
  LoadedState state;
};

// Opens <state_dir>/coatrack.db and starts the writer and the reader thread. Errors name the file.
// The destructor writes what waits, answers it, then joins the threads.
Result<OpenedStore> OpenSqliteStore(const SqliteOptions& options);

}  // namespace coat
