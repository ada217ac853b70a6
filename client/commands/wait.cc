#include <memory>
#include <ostream>
#include <vector>

#include "client/commands/follow.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::Job;

struct Options {
  std::vector<std::string> jobs;
  OutputFormat format = OutputFormat::kTable;
};

void Print(Context& context, const Job& job, OutputFormat format) {
  switch (format) {
    case OutputFormat::kName: context.out() << job.id() << "\n"; break;
    case OutputFormat::kJson:
      context.out() << ToJson(job, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      break;
    case OutputFormat::kYaml: context.out() << "---\n" << ToYaml(job, Zeros::kPrint); break;
    default: context.out() << job.id() << "  " << StateText(job) << "\n";
  }
  context.out().flush();
}

int Wait(Context& context, const Options& options) {
  CancelToken cancel;
  const Interrupt interrupt([&] { cancel.Cancel(); });
  int code = kExitOk;
  for (const std::string& name : options.jobs) {
    const auto end = FollowJob(context, name, &cancel, {});
    if (!end.ok()) return FailFollowing(context, name, end.status());
    Print(context, *end, options.format);
    if (code == kExitOk) code = ExitCodeOf(*end);
  }
  return code;
}

}  // namespace

void AddWait(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand(
      "wait", "Wait for jobs; 0 succeeded, 100 failed, 102 not found, 103 cancelled, 124 timeout");
  const auto options = std::make_shared<Options>();
  verb->add_option("job", options->jobs, "Jobs: ids, unique beginnings of ids, or names")
      ->type_name("JOB")
      ->required();
  AddOutput(verb, &options->format);
  verb->callback(
      [=] { *action = [options](Context& context) { return Wait(context, *options); }; });
}

}  // namespace coat
