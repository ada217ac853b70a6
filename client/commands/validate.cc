#include <memory>
#include <ostream>
#include <vector>

#include "client/commands/verbs.h"
#include "configs/spec/load.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

struct Options {
  SpecOptions spec;
  OutputFormat format = OutputFormat::kTable;
};

int Validate(Context& context, const Options& options) {
  const auto job = LoadJobFile(options.spec.file, options.spec.overrides);
  if (!job.ok()) {
    context.Say(job.status().message());
    return kExitError;
  }
  switch (options.format) {
    case OutputFormat::kJson: context.out() << ToJson(job->spec) << "\n"; break;
    case OutputFormat::kYaml: context.out() << ToYaml(job->spec); break;
    case OutputFormat::kName: context.out() << job->spec.name() << "\n"; break;
    default: context.out() << options.spec.file << ": valid\n";
  }
  return kExitOk;
}

}  // namespace

void AddValidate(CLI::App* app, Action* action) {
  CLI::App* verb =
      app->add_subcommand("validate", "Check a job file here; -o yaml shows it with all defaults");
  const auto options = std::make_shared<Options>();
  AddSpecOptions(verb, &options->spec);
  AddOutput(verb, &options->format);
  verb->callback(
      [=] { *action = [options](Context& context) { return Validate(context, *options); }; });
}

}  // namespace coat
