// The live lines of a followed job on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>

#include "client/render/history.h"
#include "client/render/progress.h"
#include "client/render/terminal.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

// Thread-safe. On a screen the last line is redrawn in place; in a file a line is written for
// each event and each twentieth of the steps.
class ProgressView {
 public:
  ProgressView(std::ostream* out, const Terminal& terminal) : out_(out), terminal_(terminal) {}

  void OnWatch(const coatrack::v1::WatchResponse& response);
  void OnRecords(const coatrack::v1::StreamMetricsResponse& response);
  void Note(const std::string& line);
  void Finish();  // leaves the last line standing

 private:
  void Show();   // with the lock held
  void Clear();  // with the lock held

  std::mutex mutex_;
  std::ostream* const out_;
  const Terminal terminal_;
  RunHistory history_;
  Progress progress_;
  int64_t shown_twentieth_ = -1;
  std::string line_;  // what stands on the screen
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace coat
