#include "client/render/live_view.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "client/render/fp8_view.h"
#include "client/render/job_view.h"
#include "client/render/live_memory.h"
#include "client/render/progress.h"
#include "configs/base/units.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using Lines = std::vector<std::string>;

constexpr char kBold[] = "1", kRed[] = "31", kGreen[] = "32", kYellow[] = "33";

class Screen {
 public:
  Screen(const ScreenSize& size, Paint paint) : size_(size), paint_(paint) {}

  void Add(const std::string& line, const char* style = "") {
    const std::string text = Fit(Printable(line), size_.columns - 1);
    const bool painted = paint_ == Paint::kColour && *style != 0 && !text.empty();
    lines_.push_back(painted ? std::string("\x1b[") + style + "m" + text + "\x1b[0m" : text);
  }
  // Lines that another Screen of the same size made.
  void Append(const Lines& lines) { lines_.insert(lines_.end(), lines.begin(), lines.end()); }
  // An empty line and then these.
  void Block(const Lines& lines) {
    Add("");
    for (const std::string& line : lines) Add(line);
  }
  int rows_left() const { return size_.rows - static_cast<int>(lines_.size()); }
  Lines Take() {
    if (rows_left() < 0) lines_.resize(static_cast<size_t>(std::max(0, size_.rows)));
    return std::move(lines_);
  }

 private:
  const ScreenSize size_;
  const Paint paint_;
  Lines lines_;
};

const char* StateStyle(const Job& job) {
  switch (job.state()) {
    case JOB_STATE_RUNNING:
    case JOB_STATE_SUCCEEDED: return kGreen;
    case JOB_STATE_FAILED: return kRed;
    default: return kYellow;
  }
}

Lines Split(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string TitleText(const WatchSnapshot& snapshot) {
  const Job& job = snapshot.job;
  const auto& resources = job.spec().resources();
  std::string text = job.spec().name() + "  " + job.id() + "  " + RecipeText(job.spec()) + "  ";
  const int ranks = std::max(1, resources.ranks());
  text += std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  if (job.attempt() > 1) text += "  attempt " + std::to_string(job.attempt());
  if (job.has_started_at()) {
    const int64_t end = job.has_finished_at() ? job.finished_at().seconds() : snapshot.now_s;
    text += "  " + FormatAge(end - job.started_at().seconds());
  }
  return text;
}

// "running"; why it waits or failed, and the coordinator's own words.
std::string StateLine(const Job& job) {
  const std::string state = StateText(job);
  return job.message().empty() ? state : state + ": " + job.message();
}

Progress ProgressOf(const WatchSnapshot& snapshot) {
  const Job& job = snapshot.job;
  Progress progress{.step = job.step(), .steps = job.steps(), .loss = {}};
  if (job.has_loss()) progress.loss = job.loss();
  const StepRecord* newest = snapshot.history.newest();
  if (newest != nullptr) {
    progress.step = std::max(progress.step, newest->step());
    if (newest->has_loss()) progress.loss = newest->loss();
    progress.tokens_per_second = snapshot.history.tokens_per_second();
    if (!IsFinished(job.state())) progress.seconds_per_step = snapshot.history.seconds_per_step();
  }
  return progress;
}

Lines LossLines(const WatchSnapshot& snapshot, const ScreenSize& size, int rows,
                Terminal::Charset charset) {
  constexpr int kOtherRows = 2, kLeastRows = 3, kMostRows = 16, kWidest = 120;
  if (rows - kOtherRows < kLeastRows) return {};
  const char* mark = charset == Terminal::Charset::kUtf8 ? "\xE2\x97\x86" : "o";
  std::string title = "Loss (nats a token)";
  const auto before = snapshot.history.first_validation_loss();
  if (before.has_value()) {
    title += std::string("   ") + mark + " validation: " + FormatReal(*before, 4) + " at first, " +
             FormatReal(*snapshot.history.last_validation_loss(), 4) + " now";
  }
  return Split(DrawPlot(snapshot.history.Losses(), title, "steps",
                        {.columns = std::min(size.columns - 1, kWidest),
                         .rows = std::min(rows - kOtherRows, kMostRows),
                         .charset = charset,
                         .marks = snapshot.history.ValidationLosses()}));
}

// "activation 0.005 %, weight 0.004 %"
template <typename ValueOf>
std::string Operands(const StepRecord& record, const ValueOf& value_of) {
  std::string text;
  for (const OperandHealth& health : record.health()) {
    text += (text.empty() ? "" : ", ") + health.operand() + " " + PercentText(value_of(health));
  }
  return text;
}

std::string OptimizerText(const StepRecord& record) {
  std::string text;
  const auto add = [&](const char* name, const Histogram& histogram) {
    const int bucket = MedianBucket(histogram);
    if (bucket < 0) return;
    text += std::string(text.empty() ? "" : ", ") + name + " " + BucketText(histogram, bucket);
  };
  add("k of m", record.expansion_k_m());
  add("k of v", record.expansion_k_v());
  std::string line =
      record.optimizer_state().empty() ? "" : "Optimizer " + record.optimizer_state();
  if (!text.empty()) line += (line.empty() ? "Median " : ", median ") + text;
  return line;
}

void AddFp8(const WatchSnapshot& snapshot, Screen* screen) {
  const StepRecord* record = snapshot.history.newest_health();
  if (record == nullptr) return;
  const bool healthy = JudgeFp8(*record) == Fp8Health::kHealthy;
  screen->Add("FP8 " + std::string(healthy ? "healthy" : "needs attention") + " (step " +
                  FormatCount(record->step()) + ")",
              healthy ? kGreen : kYellow);
  screen->Add("saturated: " +
              Operands(*record, [](const auto& health) { return health.saturated_ratio(); }));
  screen->Add("error:     " +
              Operands(*record, [](const auto& health) { return health.relative_error(); }));
  if (const std::string line = OptimizerText(*record); !line.empty()) screen->Add(line);
  const StepRecord* newest = snapshot.history.newest();
  if (newest->skipped_total() > 0) {
    screen->Add("Skipped steps: " + FormatCount(newest->skipped_total()) +
                    " (non-finite gradients or no target)",
                kYellow);
  }
}

Lines EventLines(const WatchSnapshot& snapshot) {
  constexpr size_t kMost = 4;
  const size_t shown = std::min(snapshot.events.size(), kMost);
  Lines lines;
  for (size_t i = snapshot.events.size() - shown; i < snapshot.events.size(); ++i) {
    lines.push_back(EventLine(snapshot.events[i]));
  }
  return lines;
}

void AddHead(const WatchSnapshot& snapshot, const ScreenSize& size, Terminal::Charset charset,
             Screen* screen) {
  screen->Add(TitleText(snapshot), kBold);
  screen->Add(StateLine(snapshot.job), StateStyle(snapshot.job));
  if (snapshot.job.steps() <= 0) return;
  screen->Add(
      ProgressLine(ProgressOf(snapshot),
                   {.kind = Terminal::Kind::kScreen, .charset = charset, .columns = size.columns}));
}

void AddFoot(const WatchSnapshot& snapshot, Screen* screen) {
  if (!snapshot.note.empty()) {
    screen->Add(snapshot.note, kYellow);
  } else if (snapshot.following && !IsFinished(snapshot.job.state())) {
    screen->Add("Ctrl-C detaches; the job goes on.");
  }
}

}  // namespace

std::vector<std::string> LiveLines(const WatchSnapshot& snapshot, const ScreenSize& size,
                                   Terminal::Charset charset, Paint paint) {
  constexpr int kLeastPlot = 7;  // with its title, its axis and the empty line before it
  Screen screen(size, paint), health(size, paint), foot(size, paint);
  AddHead(snapshot, size, charset, &screen);
  AddFp8(snapshot, &health);
  AddFoot(snapshot, &foot);
  const Lines fp8 = health.Take(), last = foot.Take();
  const Lines memory = LiveMemoryLines(snapshot, size.columns - 1, charset);
  const Lines events = EventLines(snapshot);

  int left = screen.rows_left() - static_cast<int>(last.size() + fp8.size()) - kLeastPlot;
  const auto take = [&left](const Lines& lines) {
    const int rows = static_cast<int>(lines.size()) + 1;
    const bool shown = !lines.empty() && rows <= left;
    if (shown) left -= rows;
    return shown;
  };
  const bool show_memory = take(memory), show_events = take(events);
  const Lines loss = LossLines(snapshot, size, left + kLeastPlot - 1, charset);
  if (!loss.empty()) screen.Block(loss);
  if (show_memory) screen.Block(memory);
  screen.Append(fp8);
  if (show_events) screen.Block(events);
  screen.Append(last);
  return screen.Take();
}

}  // namespace coat
