#include <memory>
#include <ostream>

#include "client/commands/verbs.h"
#include "client/render/resource_view.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

int ListWorkers(Context& context, OutputFormat format) {
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  const auto response = (*client)->ListWorkers({});
  if (!response.ok()) return context.Fail(response.status());
  switch (format) {
    case OutputFormat::kName:
      for (const auto& worker : response->workers()) context.out() << worker.name() << "\n";
      break;
    case OutputFormat::kJson:
      context.out() << ToJson(*response, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      break;
    case OutputFormat::kYaml: context.out() << ToYaml(*response, Zeros::kPrint); break;
    default: context.out() << WorkerTable(response->workers(), format);
  }
  if (response->workers_size() == 0) {
    context.Say("No workers; start coat-worker with --server " + (*client)->address() + ".");
  }
  return kExitOk;
}

}  // namespace

void AddWorkers(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("workers", "List the workers and their devices");
  verb->alias("nodes");
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  AddOutput(verb, format.get());
  verb->callback(
      [=] { *action = [format](Context& context) { return ListWorkers(context, *format); }; });
}

}  // namespace coat
