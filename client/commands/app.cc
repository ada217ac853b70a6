#include <algorithm>
#include <map>
#include <ostream>

#include "client/commands/verbs.h"
#include "configs/base/error.h"
#include "configs/base/units.h"

namespace coat {

CLI::Validator DurationFlag() {
  return CLI::Validator(
      [](std::string& text) {
        const auto parsed = ParseDurationMs(text);
        return parsed.ok() ? std::string() : parsed.status().message();
      },
      "DURATION");
}

void AddSpecOptions(CLI::App* verb, SpecOptions* options) {
  verb->add_option("-f,--file,file", options->file, "Job file; '-' is standard input")->required();
  verb->add_option("--set", options->overrides, "Override a field, such as train.steps=100")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

void AddOutput(CLI::App* verb, OutputFormat* format) {
  const std::map<std::string, OutputFormat> formats = {{"table", OutputFormat::kTable},
                                                       {"wide", OutputFormat::kWide},
                                                       {"json", OutputFormat::kJson},
                                                       {"yaml", OutputFormat::kYaml},
                                                       {"name", OutputFormat::kName}};
  verb->add_option("-o,--output", *format, "Form of what is printed")
      // Its own description lists numbers.
      ->transform(CLI::CheckedTransformer(formats).description(""))
      ->type_name("table|wide|json|yaml|name");
}

void AddJob(CLI::App* verb, std::string* job) {
  verb->add_option("job", *job, "Job: id, unique beginning of an id, or name")
      ->type_name("JOB")
      ->required();
}

void BuildApp(CLI::App* app, GlobalOptions* options, Action* action) {
  app->require_subcommand(1);
  app->fallthrough();
  app->set_version_flag("--version", "coat " COAT_VERSION);
  app->add_option("--server", options->server,
                  "Coordinator; else COAT_SERVER, ~/.config/coatrack/config.yaml, 127.0.0.1:7070")
      ->type_name("HOST:PORT");
  app->add_option("--timeout", options->timeout,
                  "Longest time for an answer (30s) or, when following, for the end")
      ->check(DurationFlag());
  AddSubmit(app, action);
  AddRun(app, action);
  AddList(app, action);
  AddDescribe(app, action);
  AddEvents(app, action);
  AddWatch(app, action);
  AddLogs(app, action);
  AddMetrics(app, action);
  AddReport(app, action);
  // R
  AddCancel(app, action);
  AddKill(app, action);
  AddWait(app, action);
  AddPlan(app, action);
  AddValidate(app, action);
  AddCheckpoints(app, action);
  AddWorkers(app, action);
  AddVersion(app, action);
  AddCompletion(app, action);
}

int RunCoat(const std::vector<std::string>& arguments, Host host) {
  CLI::App app("Train language models in FP8 with COAT: submit jobs and watch them", "coat");
  GlobalOptions options;
  Action action;
  BuildApp(&app, &options, &action);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    // CLI11's own codes are above 100 and mean something else here.
    return app.exit(error, *host.out, *host.err) == 0 ? kExitOk : kExitUsage;
  }
  Context context(std::move(host), &options);
  try {
    return action(context);
  } catch (const Error& error) {
    return context.Fail(Status(error.code(), error.what()));
  }
}

}  // namespace coat
