// What cancel and kill share: several jobs, a question, waiting for the end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/commands/verbs.h"

namespace coat {

struct StopOptions {
  std::vector<std::string> jobs;
  std::string message;
  bool yes = false;
  bool wait = false;
  OutputFormat format = OutputFormat::kName;
};
void AddStop(CLI::App* verb, StopOptions* options);

// Calls `stop` for each job, prints those that were asked to stop, and waits when wanted.
using StopCall = std::function<Result<coatrack::v1::Job>(JobClient*, const std::string& job)>;
int StopJobs(Context& context, const StopOptions& options, const StopCall& stop);

}  // namespace coat
