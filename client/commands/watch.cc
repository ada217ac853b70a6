#include <chrono>
#include <memory>
#include <ostream>
#include <string>

#include "client/commands/follow.h"
#include "client/commands/live_screen.h"
#include "client/commands/load.h"
#include "client/commands/quiet_keyboard.h"
#include "client/commands/record_stream.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "client/render/progress.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::StreamMetricsResponse;
using coatrack::v1::WatchResponse;

struct Options {
  std::string job;
  OutputFormat format = OutputFormat::kTable;
};

// "12:00:00  running  step 600/1,200, loss 2.3412"
std::string StateLine(const coatrack::v1::Job& job, int64_t now) {
  Progress progress{.step = job.step(), .steps = job.steps(), .loss = {}};
  if (job.has_loss()) progress.loss = job.loss();
  if (job.has_tokens_per_second()) progress.tokens_per_second = job.tokens_per_second();
  std::string line = FormatClock(now) + "  " + StateText(job);
  if (job.steps() > 0) line += "  " + ProgressText(progress);
  return line;
}

// A line for each event and each change of state; for steps alone at most one a second.
class LinePrinter {
 public:
  explicit LinePrinter(std::ostream* out) : out_(out) {}

  void Print(const WatchResponse& response, int64_t now) {
    using Steady = std::chrono::steady_clock;
    for (const auto& event : response.events()) *out_ << EventLine(event) << "\n";
    const std::string state = StateText(response.job());
    const bool changed = state != state_ || response.events_size() > 0;
    if (!changed && Steady::now() - printed_ < std::chrono::seconds(1)) return;
    state_ = state;
    printed_ = Steady::now();
    *out_ << StateLine(response.job(), now) << std::endl;
  }

 private:
  std::ostream* const out_;
  std::string state_;
  std::chrono::steady_clock::time_point printed_;
};

Result<coatrack::v1::Job> FollowWithLines(Context& context, const Options& options,
                                          CancelToken* cancel) {
  LinePrinter printer(&context.out());
  const auto print = [&](const WatchResponse& response) {
    if (options.format == OutputFormat::kJson) {
      context.out() << ToJson(response, JsonStyle::kCompact, Zeros::kPrint) << std::endl;
    } else {
      printer.Print(response, context.now_s());
    }
  };
  return FollowJob(context, options.job, cancel, {.on_change = print, .say = {}});
}

Result<coatrack::v1::Job> FollowOnScreen(Context& context, const std::string& job,
                                         CancelToken* cancel) {
  ASSIGN_OR_RETURN(JobClient* const client, context.Connect());
  const Host& host = context.host();
  const QuietKeyboard keyboard(host.in_kind);
  LiveScreen screen({.out = host.out,
                     .charset = host.out_terminal.charset,
                     .size = host.screen_size,
                     .now_s = host.now_s});
  const RecordStream records(
      client, job, [&](const StreamMetricsResponse& response) { screen.OnRecords(response); });
  int attempt = 0;
  const auto on_change = [&](const WatchResponse& response) {
    screen.OnWatch(response);
    if (response.job().attempt() == attempt || response.job().placement_size() == 0) return;
    attempt = response.job().attempt();
    screen.SetDeviceBytes(LoadDeviceBytes(client, response.job()));
  };
  auto end = FollowJob(
      context, job, cancel,
      {.on_change = on_change, .say = [&](const std::string& line) { screen.Note(line); }});
  if (end.ok()) {
    // The last records may come after the last change.
    if (const auto history = LoadHistory(client, end->id()); history.ok()) {
      screen.SetHistory(*history);
    }
  }
  screen.Finish();
  return end;
}

int Watch(Context& context, const Options& options) {
  CancelToken cancel;
  const Interrupt interrupt([&] { cancel.Cancel(); });
  const bool live = context.host().out_terminal.is_screen() &&
                    options.format == OutputFormat::kTable && context.host().screen_size != nullptr;
  const auto end = live ? FollowOnScreen(context, options.job, &cancel)
                        : FollowWithLines(context, options, &cancel);
  if (end.ok()) return kExitOk;
  if (end.status().code() != Code::kStopped) return context.Fail(end.status());
  SayDetached(context, options.job);
  return kExitOk;
}

}  // namespace

void AddWatch(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand(
      "watch",
      "Show a job live until its end: loss, memory, FP8 health; elsewhere a line a change");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  AddOutput(verb, &options->format);
  verb->callback(
      [=] { *action = [options](Context& context) { return Watch(context, *options); }; });
}

}  // namespace coat
