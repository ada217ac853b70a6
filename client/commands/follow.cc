#include "client/commands/follow.h"

#include <algorithm>
#include <optional>

#include "client/commands/progress_view.h"
#include "client/commands/record_stream.h"
#include "client/render/job_view.h"

namespace coat {

using coatrack::v1::Job;
using coatrack::v1::WatchResponse;

Result<Job> FollowJob(Context& context, const std::string& job, CancelToken* cancel,
                      const FollowHooks& hooks) {
  constexpr int kMostEmptyStreams = 20;
  ASSIGN_OR_RETURN(JobClient* const client, context.Connect());
  FollowOptions options{.cancel = cancel, .until = context.Until(), .on_lost = {}};
  options.on_lost = [&](const Status& fault) {
    const std::string line = "coat: " + fault.message() + "; trying again";
    hooks.say ? hooks.say(line) : context.Say(line);
  };
  coatrack::v1::WatchRequest request;
  request.set_job(job);
  WatchResponse newest;
  for (int streams = 0; streams < kMostEmptyStreams; ++streams) {
    RETURN_IF_ERROR(client->Watch(request, options, [&](const WatchResponse& response) {
      for (const auto& event : response.events()) {
        request.set_after_sequence(std::max(request.after_sequence(), event.sequence()));
      }
      newest = response;
      streams = 0;
      if (hooks.on_change) hooks.on_change(response);
    }));
    if (IsFinished(newest.job().state())) return newest.job();
    // The coordinator ended the stream early: it may be on its way down.
    if (!cancel->Sleep(context.host().retry.Backoff(streams + 1))) {
      return Status(Code::kStopped, "stopped following");
    }
  }
  return Status(Code::kUnavailable,
                "the coordinator ends every watch of job " + job + "; look at its log");
}

Result<Job> FollowWithProgress(Context& context, const std::string& job, CancelToken* cancel) {
  ASSIGN_OR_RETURN(JobClient* const client, context.Connect());
  ProgressView view(&context.err(), context.host().err_terminal);
  std::optional<RecordStream> records;
  records.emplace(client, job, [&](const auto& response) { view.OnRecords(response); });
  Result<Job> end =
      FollowJob(context, job, cancel,
                {.on_change = [&](const WatchResponse& response) { view.OnWatch(response); },
                 .say = [&](const std::string& line) { view.Note(line); }});
  records.reset();
  view.Finish();
  return end;
}

int ExitCodeOf(const Job& job) {
  if (job.state() == coatrack::v1::JOB_STATE_SUCCEEDED) return kExitOk;
  return job.state() == coatrack::v1::JOB_STATE_CANCELLED ? kExitCancelled : kExitFailed;
}

int FailFollowing(Context& context, const std::string& job, const Status& status) {
  if (status.code() == Code::kStopped) {
    SayDetached(context, job);
    return kExitError;
  }
  const int code = context.Fail(status);
  if (status.code() == Code::kDeadlineExceeded) {
    context.Say("Job " + job + " goes on. Come back with: coat watch " + job);
  }
  return status.code() == Code::kNotFound ? kExitNotFound : code;
}

void SayDetached(Context& context, const std::string& job) {
  context.Say("\nDetached; job " + job + " goes on.\n  come back:  coat watch " + job +
              "\n  stop it:    coat cancel " + job);
}

}  // namespace coat
