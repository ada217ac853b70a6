#include <memory>
#include <ostream>

#include "client/commands/follow.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "client/render/progress.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

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

int Watch(Context& context, const Options& options) {
  CancelToken cancel;
  const Interrupt interrupt([&] { cancel.Cancel(); });
  std::string last;
  const auto print = [&](const coatrack::v1::WatchResponse& response) {
    if (options.format == OutputFormat::kJson) {
      context.out() << ToJson(response, JsonStyle::kCompact, Zeros::kPrint) << std::endl;
      return;
    }
    for (const auto& event : response.events()) context.out() << EventLine(event) << "\n";
    const std::string line = StateLine(response.job(), context.now_s());
    // The clock alone is no news.
    if (line.substr(8) != last) context.out() << line << "\n";
    last = line.substr(8);
    context.out().flush();
  };
  const auto end = FollowJob(context, options.job, &cancel, {.on_change = print, .say = {}});
  if (end.ok()) return kExitOk;
  if (end.status().code() != Code::kStopped) return context.Fail(end.status());
  SayDetached(context, options.job);
  return kExitOk;
}

}  // namespace

void AddWatch(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("watch", "Print each change of a job until its end");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  AddOutput(verb, &options->format);
  verb->callback(
      [=] { *action = [options](Context& context) { return Watch(context, *options); }; });
}

}  // namespace coat
