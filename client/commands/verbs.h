// The verbs of `coat`. Each Add... declares one verb with its flags; when it is chosen, `action`
// is set to what runs it and returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "client/commands/context.h"
#include "client/render/terminal.h"

namespace coat {

using Action = std::function<int(Context&)>;

void AddSubmit(CLI::App* app, Action* action);
void AddRun(CLI::App* app, Action* action);
void AddList(CLI::App* app, Action* action);
void AddDescribe(CLI::App* app, Action* action);
void AddEvents(CLI::App* app, Action* action);
void AddWatch(CLI::App* app, Action* action);
void AddLogs(CLI::App* app, Action* action);
void AddMetrics(CLI::App* app, Action* action);
void AddReport(CLI::App* app, Action* action);
void AddCancel(CLI::App* app, Action* action);
void AddKill(CLI::App* app, Action* action);
void AddWait(CLI::App* app, Action* action);
void AddPlan(CLI::App* app, Action* action);
void AddValidate(CLI::App* app, Action* action);
void AddCheckpoints(CLI::App* app, Action* action);
void AddWorkers(CLI::App* app, Action* action);
void AddVersion(CLI::App* app, Action* action);
void AddCompletion(CLI::App* app, Action* action);

// Flags that several verbs share.
struct SpecOptions {
  std::string file;
  std::vector<std::string> overrides;
};
void AddSpecOptions(CLI::App* verb, SpecOptions* options);
void AddOutput(CLI::App* verb, OutputFormat* format);
void AddJob(CLI::App* verb, std::string* job);

// Refuses a duration without a unit.
CLI::Validator DurationFlag();

// Declares all verbs and the global flags.
void BuildApp(CLI::App* app, GlobalOptions* options, Action* action);

// Parses `arguments` (without the program's name), runs the verb, returns the exit code.
int RunCoat(const std::vector<std::string>& arguments, Host host);

}  // namespace coat
