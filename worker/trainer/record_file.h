// Where step records go.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "coatrack/v1/events.pb.h"

namespace coat {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void Write(const coatrack::v1::StepRecord& record) = 0;
};

// Appends to records.jsonl, a line a write, so that a reader never sees two records mixed.
// Thread-safe. A full disk must not end a run: records that cannot be written are dropped, with
// one line on stderr.
class RecordFile final : public RecordSink {
 public:
  // Error(kIo) when the file cannot be opened.
  explicit RecordFile(const std::string& path);
  ~RecordFile() override;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  void Write(const coatrack::v1::StepRecord& record) override;

 private:
  const std::string path_;
  std::mutex mutex_;
  int fd_;
  bool failed_ = false;
};

}  // namespace coat
