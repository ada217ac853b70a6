#include <memory>

#include "client/commands/stop.h"

namespace coat {
namespace {

int Kill(Context& context, const StopOptions& options) {
  const std::string what =
      options.jobs.size() == 1 ? options.jobs[0] : std::to_string(options.jobs.size()) + " jobs";
  if (!context.Confirm("Kill " + what + " now? What came after the last checkpoint is lost.",
                       options.yes)) {
    context.Say("Nothing was killed.");
    return kExitError;
  }
  return StopJobs(context, options,
                  [&](JobClient* client, const std::string& job) -> Result<coatrack::v1::Job> {
                    coatrack::v1::KillRequest request;
                    request.set_job(job);
                    request.set_message(options.message);
                    ASSIGN_OR_RETURN(const auto response, client->Kill(request));
                    return response.job();
                  });
}

}  // namespace

void AddKill(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("kill", "Stop jobs now, without a checkpoint");
  const auto options = std::make_shared<StopOptions>();
  AddStop(verb, options.get());
  verb->callback(
      [=] { *action = [options](Context& context) { return Kill(context, *options); }; });
}

}  // namespace coat
