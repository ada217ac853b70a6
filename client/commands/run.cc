#include <memory>
#include <optional>
#include <ostream>

#include "client/commands/follow.h"
#include "client/commands/load.h"
#include "client/commands/submission.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "client/render/summary.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::Job;

struct Options {
  SubmissionOptions submission;
  OutputFormat format = OutputFormat::kTable;
  bool detach = false;
  std::string compare;
};

Result<std::optional<Comparison>> LoadComparison(JobClient* client, const std::string& job) {
  if (job.empty()) return std::optional<Comparison>();
  coatrack::v1::GetRequest request;
  request.set_job(job);
  ASSIGN_OR_RETURN(const auto found, client->Get(request));
  ASSIGN_OR_RETURN(const RunHistory history, LoadHistory(client, found.job().id()));
  if (history.newest_memory() == nullptr) {
    return Status(Code::kFailedPrecondition,
                  "job " + job + " has no measured memory; compare with one that has trained");
  }
  return std::optional<Comparison>({RecipeText(found.job().spec()), *history.newest_memory()});
}

void PrintNextCommands(Context& context, JobClient* client, const Job& job) {
  const auto info = client->GetServerInfo({});
  if (info.ok() && !info->metrics_address().empty()) {
    context.out() << "Metrics: http://" << info->metrics_address() << "/metrics\n";
  }
  context.out() << "Next: coat describe " << job.id() << " | coat metrics " << job.id()
                << " | coat logs " << job.id() << " | coat checkpoints ls " << job.id() << "\n";
}

int PrintEnd(Context& context, JobClient* client, const Job& job, const Options& options) {
  context.Say("Job " + job.id() + " " + StateText(job) +
              (job.message().empty() ? "." : ": " + Printable(job.message())));
  if (options.format == OutputFormat::kName) {
    context.out() << job.id() << "\n";
  } else if (options.format == OutputFormat::kJson) {
    context.out() << ToJson(job, JsonStyle::kIndented, Zeros::kPrint) << "\n";
  } else if (options.format == OutputFormat::kYaml) {
    context.out() << ToYaml(job, Zeros::kPrint);
  } else {
    const auto history = LoadHistory(client, job.id());
    if (!history.ok()) {
      context.Fail(history.status());
      return ExitCodeOf(job);
    }
    const auto comparison = LoadComparison(client, options.compare);
    if (!comparison.ok()) context.Fail(comparison.status());
    context.out() << RunSummary(job, *history, comparison.ok() ? *comparison : std::nullopt,
                                context.host().out_terminal);
    PrintNextCommands(context, client, job);
  }
  context.out().flush();
  if (ExitCodeOf(job) == kExitFailed) {
    context.Say("Why: coat describe " + job.id() + "; its output: coat logs " + job.id());
  }
  return ExitCodeOf(job);
}

int RunJob(Context& context, const Options& options) {
  CancelToken cancel;
  std::unique_ptr<Interrupt> interrupt;
  if (!options.detach) interrupt = std::make_unique<Interrupt>([&] { cancel.Cancel(); });
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  const auto response = SubmitFile(context, options.submission, SubmitMode::kSubmit);
  if (!response.ok()) return context.Fail(response.status());
  const Job& job = response->job();
  context.Say("Job " + job.id() + " (" + job.spec().name() + ") is submitted.");
  if (options.detach) {
    context.Say("Follow it with: coat watch " + job.id());
    context.out() << job.id() << std::endl;
    return kExitOk;
  }
  const auto end = FollowWithProgress(context, job.id(), &cancel);
  if (!end.ok()) return FailFollowing(context, job.id(), end.status());
  return PrintEnd(context, *client, *end, options);
}

}  // namespace

void AddRun(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("run", "Submit a job, follow it and sum it up");
  const auto options = std::make_shared<Options>();
  AddSubmission(verb, &options->submission);
  AddOutput(verb, &options->format);
  verb->add_flag("-d,--detach", options->detach, "Submit and print the id, as submit does");
  verb->add_option("--compare", options->compare,
                   "Put the measured memory of this job beside the new one's")
      ->type_name("JOB");
  verb->callback(
      [=] { *action = [options](Context& context) { return RunJob(context, *options); }; });
}

}  // namespace coat
