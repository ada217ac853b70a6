#include "client/commands/stop.h"

#include <memory>
#include <ostream>

#include "client/commands/follow.h"
#include "client/render/job_view.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::Job;

void Print(Context& context, const std::vector<Job>& jobs, OutputFormat format) {
  if (format == OutputFormat::kTable || format == OutputFormat::kWide) {
    context.out() << JobTable(jobs, format, context.now_s());
    return;
  }
  for (const Job& job : jobs) {
    if (format == OutputFormat::kName) context.out() << job.id() << "\n";
    if (format == OutputFormat::kJson) {
      context.out() << ToJson(job, JsonStyle::kIndented, Zeros::kPrint) << "\n";
    }
    if (format == OutputFormat::kYaml) {
      context.out() << "---\n" << ToYaml(job, Zeros::kPrint);
    }
  }
}

}  // namespace

void AddStop(CLI::App* verb, StopOptions* options) {
  verb->add_option("job", options->jobs, "Jobs: ids, unique beginnings of ids, or names")
      ->type_name("JOB")
      ->required();
  verb->add_option("-m,--message", options->message, "Why; kept with the job");
  verb->add_flag("-y,--yes", options->yes, "Do not ask");
  verb->add_flag("--wait", options->wait, "Wait until the jobs have ended");
  AddOutput(verb, &options->format);
}

int StopJobs(Context& context, const StopOptions& options, const StopCall& stop) {
  CancelToken cancel;
  std::unique_ptr<Interrupt> interrupt;
  if (options.wait) interrupt = std::make_unique<Interrupt>([&] { cancel.Cancel(); });
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  std::vector<Job> stopped;
  int code = kExitOk;
  for (const std::string& name : options.jobs) {
    const auto job = stop(*client, name);
    if (job.ok()) {
      stopped.push_back(*job);
      context.Say("Job " + job->id() + ": " + StateText(*job));
    } else {
      code = context.Fail(job.status());
    }
  }
  for (Job& job : stopped) {
    if (!options.wait) break;
    const auto end = FollowJob(context, job.id(), &cancel, {});
    if (!end.ok()) return FailFollowing(context, job.id(), end.status());
    job = *end;
    context.Say("Job " + job.id() + ": " + StateText(job));
  }
  Print(context, stopped, options.format);
  return code;
}

}  // namespace coat
