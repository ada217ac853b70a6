#include "client/commands/live_screen.h"

#include <chrono>
#include <ostream>
#include <utility>

namespace coat {
namespace {

// The second screen, without a cursor and without wrapping; and back.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char kLeave[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr size_t kKeptEvents = 100;

}  // namespace

LiveScreen::LiveScreen(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Run(); });
}

LiveScreen::~LiveScreen() { Finish(); }

void LiveScreen::OnWatch(const coatrack::v1::WatchResponse& response) {
  std::lock_guard lock(mutex_);
  snapshot_.job = response.job();
  snapshot_.note.clear();
  auto& events = snapshot_.events;
  events.insert(events.end(), response.events().begin(), response.events().end());
  if (events.size() > kKeptEvents) events.erase(events.begin(), events.end() - kKeptEvents);
  dirty_ = true;
}

void LiveScreen::OnRecords(const coatrack::v1::StreamMetricsResponse& response) {
  std::lock_guard lock(mutex_);
  for (const auto& record : response.records()) snapshot_.history.Add(record);
  snapshot_.note.clear();
  dirty_ = true;
}

void LiveScreen::SetHistory(const RunHistory& history) {
  std::lock_guard lock(mutex_);
  snapshot_.history = history;
  dirty_ = true;
}

void LiveScreen::SetDeviceBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  snapshot_.device_bytes = bytes;
  dirty_ = true;
}

void LiveScreen::Note(const std::string& line) {
  std::lock_guard lock(mutex_);
  snapshot_.note = line;
  dirty_ = true;
}

std::vector<std::string> LiveScreen::Lines(const ScreenSize& size) {
  snapshot_.now_s = options_.now_s();
  return LiveLines(snapshot_, size, options_.charset, Paint::kColour);
}

void LiveScreen::Draw(const ScreenSize& size) {
  std::string text = entered_ ? "" : kEnter;
  entered_ = true;
  text += "\x1b[H";
  const std::vector<std::string> lines = Lines(size);
  for (size_t i = 0; i < lines.size(); ++i) {
    text += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
  }
  *options_.out << text << "\x1b[J" << std::flush;
}

void LiveScreen::Run() {
  using Steady = std::chrono::steady_clock;
  constexpr auto kTick = std::chrono::milliseconds(100);
  constexpr auto kLongest = std::chrono::seconds(1);
  Steady::time_point drawn;
  ScreenSize shown{0, 0};
  std::unique_lock lock(mutex_);
  while (!finished_) {
    const ScreenSize size = options_.size();
    const bool resized = size.columns != shown.columns || size.rows != shown.rows;
    if (dirty_ || resized || Steady::now() - drawn >= kLongest) {
      dirty_ = false;
      shown = size;
      drawn = Steady::now();
      // Nothing is known before the first answer.
      if (!snapshot_.job.id().empty()) Draw(size);
    }
    changed_.wait_for(lock, kTick, [this] { return finished_; });
  }
}

void LiveScreen::Finish() {
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (entered_) *options_.out << kLeave;
  snapshot_.following = false;
  if (!snapshot_.job.id().empty()) {
    for (const std::string& line : Lines(options_.size())) *options_.out << line << "\n";
  }
  options_.out->flush();
}

}  // namespace coat
