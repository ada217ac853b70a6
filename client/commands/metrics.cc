#include <memory>
#include <ostream>
#include <vector>

#include "client/commands/follow.h"
#include "client/commands/verbs.h"
#include "client/render/history.h"
#include "client/render/job_view.h"
#include "client/rpc/interrupt.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::StepRecord;
using coatrack::v1::StreamMetricsResponse;

struct Options {
  std::string job;
  OutputFormat format = OutputFormat::kTable;
  bool follow = false;
  bool plot = false;
  int limit = 0;  // 0: all
};

// Prints records as they come, in forms that need no look ahead.
void PrintRecord(Context& context, const StepRecord& record, OutputFormat format) {
  if (format == OutputFormat::kYaml) {
    context.out() << "---\n" << ToYaml(record, Zeros::kPrint);
  } else {
    context.out() << ToJson(record, JsonStyle::kCompact, Zeros::kPrint) << "\n";
  }
}

void PrintCollected(Context& context, const std::vector<StepRecord>& records,
                    const Options& options) {
  const size_t limit = static_cast<size_t>(options.limit);
  const size_t skipped = limit > 0 && records.size() > limit ? records.size() - limit : 0;
  const std::vector<StepRecord> newest(records.begin() + static_cast<std::ptrdiff_t>(skipped),
                                       records.end());
  if (options.format == OutputFormat::kJson || options.format == OutputFormat::kYaml) {
    for (const StepRecord& record : newest) PrintRecord(context, record, options.format);
    return;
  }
  if (!options.plot) {
    context.out() << RecordTable(newest);
    return;
  }
  RunHistory history;
  for (const StepRecord& record : newest) history.Add(record);
  const Terminal& terminal = context.host().out_terminal;
  context.out() << DrawPlot(history.Losses(), "Training loss (nats a token)", "steps",
                            {.columns = terminal.columns, .rows = 16, .charset = terminal.charset});
}

int Metrics(Context& context, const Options& options) {
  CancelToken cancel;
  std::unique_ptr<Interrupt> interrupt;
  if (options.follow) interrupt = std::make_unique<Interrupt>([&] { cancel.Cancel(); });
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  coatrack::v1::StreamMetricsRequest request;
  request.set_job(options.job);
  request.set_follow(options.follow);
  request.set_after_step(-1);
  std::vector<StepRecord> records;
  const auto on_records = [&](const StreamMetricsResponse& response) {
    for (const StepRecord& record : response.records()) {
      if (options.follow) {
        PrintRecord(context, record, options.format);
      } else {
        records.push_back(record);
      }
    }
    context.out().flush();
  };
  const Status status = (*client)->StreamMetrics(
      request, {.cancel = &cancel, .until = context.Until(), .on_lost = {}}, on_records);
  if (status.code() == Code::kStopped) {
    SayDetached(context, options.job);
    return kExitOk;
  }
  if (!status.ok()) return context.Fail(status);
  if (!options.follow) PrintCollected(context, records, options);
  return kExitOk;
}

}  // namespace

void AddMetrics(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("metrics", "Print the records of a job's steps");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  AddOutput(verb, &options->format);
  auto* follow = verb->add_flag("-f,--follow", options->follow,
                                "Go on until the job has ended, a JSON line a record");
  verb->add_flag("--plot", options->plot, "Draw the loss curve")->excludes(follow);
  verb->add_option("-n,--limit", options->limit, "Only the newest records")
      ->check(CLI::PositiveNumber)
      ->excludes(follow);
  verb->callback(
      [=] { *action = [options](Context& context) { return Metrics(context, *options); }; });
}

}  // namespace coat
