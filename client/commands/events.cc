#include <memory>
#include <ostream>

#include "client/commands/load.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

struct Options {
  std::string job;
  OutputFormat format = OutputFormat::kTable;
  int64_t after = 0;
};

int ListEvents(Context& context, const Options& options) {
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  const auto events = LoadEvents(*client, options.job, options.after);
  if (!events.ok()) return context.Fail(events.status());
  coatrack::v1::ListEventsResponse all;
  *all.mutable_events() = {events->begin(), events->end()};
  switch (options.format) {
    case OutputFormat::kJson:
      context.out() << ToJson(all, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      break;
    case OutputFormat::kYaml: context.out() << ToYaml(all, Zeros::kPrint); break;
    case OutputFormat::kName:
      for (const auto& event : *events) context.out() << event.sequence() << "\n";
      break;
    default: context.out() << EventTable(*events, options.format);
  }
  if (events->empty()) context.Say("No events.");
  return kExitOk;
}

}  // namespace

void AddEvents(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("events", "List what happened to a job, oldest first");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  AddOutput(verb, &options->format);
  verb->add_option("--after", options->after, "Only events later than this sequence number")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  verb->callback(
      [=] { *action = [options](Context& context) { return ListEvents(context, *options); }; });
}

}  // namespace coat
