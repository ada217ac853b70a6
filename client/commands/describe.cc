#include <memory>
#include <ostream>
#include <vector>

#include "client/commands/load.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::Job;

struct Options {
  std::string job;
  OutputFormat format = OutputFormat::kTable;
};

int Describe(Context& context, const Options& options) {
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  coatrack::v1::GetRequest request;
  request.set_job(options.job);
  const auto found = (*client)->Get(request);
  if (!found.ok()) return context.Fail(found.status());
  const Job& job = found->job();
  switch (options.format) {
    case OutputFormat::kName: context.out() << job.id() << "\n"; return kExitOk;
    case OutputFormat::kJson:
      context.out() << ToJson(job, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      return kExitOk;
    case OutputFormat::kYaml:
      // A job file: what stands here can be submitted again.
      context.out() << "# job " << Printable(job.id()) << ", " << StateText(job) << "\n"
                    << ToYaml(job.spec());
      return kExitOk;
    default: break;
  }
  const auto events = LoadEvents(*client, job.id());
  if (!events.ok()) return context.Fail(events.status());
  context.out() << JobText(job, *events, context.now_s());
  return kExitOk;
}

}  // namespace

void AddDescribe(CLI::App* app, Action* action) {
  CLI::App* verb =
      app->add_subcommand("describe", "Show one job; -o yaml prints a file to submit again");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  AddOutput(verb, &options->format);
  verb->callback(
      [=] { *action = [options](Context& context) { return Describe(context, *options); }; });
}

}  // namespace coat
