#include <memory>
#include <ostream>

#include "client/commands/follow.h"
#include "client/commands/verbs.h"
#include "client/rpc/interrupt.h"
#include "configs/base/units.h"

namespace coat {
namespace {

struct Options {
  std::string job;
  bool follow = false;
  int64_t tail = -1;
  int rank = 0;
  std::string since;
};

coatrack::v1::StreamLogsRequest MakeRequest(const Context& context, const Options& options) {
  coatrack::v1::StreamLogsRequest request;
  request.set_job(options.job);
  request.set_rank(options.rank);
  request.set_follow(options.follow);
  if (options.tail >= 0) request.set_tail_lines(options.tail);
  if (!options.since.empty()) {
    const auto ms = ParseDurationMs(options.since);  // checked when the flag was read
    request.mutable_since()->set_seconds(context.now_s() - (ms.ok() ? *ms : 0) / 1000);
  }
  return request;
}

int Logs(Context& context, const Options& options) {
  CancelToken cancel;
  std::unique_ptr<Interrupt> interrupt;
  if (options.follow) interrupt = std::make_unique<Interrupt>([&] { cancel.Cancel(); });
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  const FollowOptions follow{
      .cancel = &cancel, .until = context.Until(), .on_lost = [&](const Status& fault) {
        context.Say("coat: " + fault.message() + "; trying again");
      }};
  const Status status =
      (*client)->StreamLogs(MakeRequest(context, options), follow, [&](const auto& response) {
        if (response.truncated()) context.Say("coat: output before this point was dropped");
        context.out().write(response.data().data(),
                            static_cast<std::streamsize>(response.data().size()));
        context.out().flush();
      });
  if (status.code() == Code::kStopped) {
    SayDetached(context, options.job);
    return kExitOk;
  }
  return status.ok() ? kExitOk : context.Fail(status);
}

}  // namespace

void AddLogs(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("logs", "Print what a rank has written");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  verb->add_flag("-f,--follow", options->follow, "Go on until the job has ended");
  verb->add_option("--tail", options->tail, "Only the last lines")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  verb->add_option("--rank", options->rank, "Rank (0)")->check(CLI::NonNegativeNumber);
  verb->add_option("--since", options->since, "Only what is younger than this, such as 10m")
      ->check(DurationFlag());
  verb->callback(
      [=] { *action = [options](Context& context) { return Logs(context, *options); }; });
}

}  // namespace coat
