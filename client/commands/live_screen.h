// The terminal while `coat watch` owns it.
#pragma once

#include <condition_variable>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/render/live_view.h"
#include "client/render/terminal.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

// Thread-safe. From the first answer to Finish (or destruction) it shows the snapshot on the
// terminal's second screen, redrawn in place at most ten times a second, at once after a change
// of size, and once a second for what only time changes.
class LiveScreen {
 public:
  struct Options {
    std::ostream* out = nullptr;
    Terminal::Charset charset = Terminal::Charset::kAscii;
    std::function<ScreenSize()> size;  // asked before each drawing
    std::function<int64_t()> now_s;
  };
  explicit LiveScreen(Options options);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void OnWatch(const coatrack::v1::WatchResponse& response);
  void OnRecords(const coatrack::v1::StreamMetricsResponse& response);
  void SetHistory(const RunHistory& history);  // all of it
  void SetDeviceBytes(int64_t bytes);
  void Note(const std::string& line);  // stands until the next answer
  // Gives the terminal back as it was and leaves the last picture standing there.
  void Finish();

 private:
  void Run();
  std::vector<std::string> Lines(const ScreenSize& size);  // with the lock held
  void Draw(const ScreenSize& size);                       // with the lock held

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  WatchSnapshot snapshot_;
  bool dirty_ = true;
  bool entered_ = false;  // the second screen
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace coat
