#include <memory>

#include "client/commands/stop.h"

namespace coat {
namespace {

int Cancel(Context& context, const StopOptions& options) {
  const bool many = options.jobs.size() > 1;
  if (many &&
      !context.Confirm("Cancel " + std::to_string(options.jobs.size()) + " jobs?", options.yes)) {
    context.Say("Nothing was cancelled.");
    return kExitError;
  }
  return StopJobs(context, options,
                  [&](JobClient* client, const std::string& job) -> Result<coatrack::v1::Job> {
                    coatrack::v1::CancelRequest request;
                    request.set_job(job);
                    request.set_message(options.message);
                    ASSIGN_OR_RETURN(const auto response, client->Cancel(request));
                    return response.job();
                  });
}

}  // namespace

void AddCancel(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("cancel", "Let jobs write a checkpoint, then stop them");
  const auto options = std::make_shared<StopOptions>();
  AddStop(verb, options.get());
  verb->callback(
      [=] { *action = [options](Context& context) { return Cancel(context, *options); }; });
}

}  // namespace coat
