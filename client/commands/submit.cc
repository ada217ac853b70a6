#include <memory>
#include <ostream>

#include "client/commands/follow.h"
#include "client/commands/submission.h"
#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

struct Options {
  SubmissionOptions submission;
  OutputFormat format = OutputFormat::kName;
  bool wait = false;
  bool dry_run = false;
};

void PrintJob(Context& context, const coatrack::v1::Job& job, OutputFormat format) {
  switch (format) {
    case OutputFormat::kName: context.out() << job.id() << "\n"; break;
    case OutputFormat::kJson:
      context.out() << ToJson(job, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      break;
    case OutputFormat::kYaml: context.out() << ToYaml(job, Zeros::kPrint); break;
    default: context.out() << JobTable({job}, format, context.now_s());
  }
  context.out().flush();
}

int DryRun(Context& context, const Options& options) {
  const auto response = SubmitFile(context, options.submission, SubmitMode::kValidateOnly);
  if (!response.ok()) return context.Fail(response.status());
  context.Say("The coordinator accepts " + options.submission.spec.file +
              "; nothing was submitted.");
  return kExitOk;
}

int Submit(Context& context, const Options& options) {
  if (options.dry_run) return DryRun(context, options);
  CancelToken cancel;
  std::unique_ptr<Interrupt> interrupt;
  if (options.wait) interrupt = std::make_unique<Interrupt>([&] { cancel.Cancel(); });
  const auto response = SubmitFile(context, options.submission, SubmitMode::kSubmit);
  if (!response.ok()) return context.Fail(response.status());
  const coatrack::v1::Job& job = response->job();
  context.Say(
      "Job " + job.id() + " (" + job.spec().name() + ") " +
      (response->already_existed() ? "was submitted before by this request id." : "is submitted."));
  if (!options.wait) {
    context.Say("Follow it with: coat watch " + job.id());
    PrintJob(context, job, options.format);
    return kExitOk;
  }
  const auto end = FollowJob(context, job.id(), &cancel, {});
  if (!end.ok()) return FailFollowing(context, job.id(), end.status());
  context.Say("Job " + end->id() + " " + StateText(*end) + ".");
  PrintJob(context, *end, options.format);
  return ExitCodeOf(*end);
}

}  // namespace

void AddSubmit(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("submit", "Queue a job and print its id");
  const auto options = std::make_shared<Options>();
  AddSubmission(verb, &options->submission);
  AddOutput(verb, &options->format);
  verb->add_flag("--wait", options->wait,
                 "Wait for its end; 0 succeeded, 100 failed, 103 cancelled");
  verb->add_flag("--dry-run", options->dry_run, "Let the coordinator check it, submit nothing");
  verb->callback(
      [=] { *action = [options](Context& context) { return Submit(context, *options); }; });
}

}  // namespace coat
