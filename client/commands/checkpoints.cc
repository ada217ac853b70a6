#include <memory>
#include <ostream>

#include "client/commands/verbs.h"
#include "client/render/resource_view.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

struct Options {
  std::string job;
  OutputFormat format = OutputFormat::kTable;
};

int ListCheckpoints(Context& context, const Options& options) {
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  coatrack::v1::ListCheckpointsRequest request;
  request.set_job(options.job);
  const auto response = (*client)->ListCheckpoints(request);
  if (!response.ok()) return context.Fail(response.status());
  switch (options.format) {
    case OutputFormat::kName:
      for (const auto& checkpoint : response->checkpoints()) {
        context.out() << checkpoint.path() << "\n";
      }
      break;
    case OutputFormat::kJson:
      context.out() << ToJson(*response, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      break;
    case OutputFormat::kYaml: context.out() << ToYaml(*response, Zeros::kPrint); break;
    default: context.out() << CheckpointTable(response->checkpoints());
  }
  if (response->checkpoints_size() == 0) {
    context.Say("No checkpoints; checkpoint.every_steps of the job says when they are written.");
  }
  return kExitOk;
}

}  // namespace

void AddCheckpoints(CLI::App* app, Action* action) {
  CLI::App* group = app->add_subcommand("checkpoints", "Checkpoints of a job");
  group->require_subcommand(1);
  CLI::App* verb = group->add_subcommand("ls", "List a job's complete checkpoints, newest first");
  verb->alias("list");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  AddOutput(verb, &options->format);
  verb->callback([=] {
    *action = [options](Context& context) { return ListCheckpoints(context, *options); };
  });
}

}  // namespace coat
