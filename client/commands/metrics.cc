#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "client/commands/follow.h"
#include "client/commands/verbs.h"
#include "client/render/history.h"
#include "client/render/resource_view.h"
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

template <typename T>
void KeepNewest(int limit, std::vector<T>* values) {
  const auto kept = static_cast<std::ptrdiff_t>(limit);
  const auto size = static_cast<std::ptrdiff_t>(values->size());
  if (limit > 0 && size > kept) values->erase(values->begin(), values->end() - kept);
}

void PrintCollected(Context& context, std::vector<StepRecord> records, const Options& options) {
  if (options.format == OutputFormat::kJson || options.format == OutputFormat::kYaml) {
    KeepNewest(options.limit, &records);
    for (const StepRecord& record : records) PrintRecord(context, record, options.format);
    return;
  }
  RunHistory history;
  for (const StepRecord& record : records) history.Add(record);
  if (!options.plot) {
    std::vector<StepRecord> steps = history.Records();
    KeepNewest(options.limit, &steps);
    context.out() << RecordTable(steps);
    return;
  }
  std::vector<PlotPoint> points = history.Losses();
  KeepNewest(options.limit, &points);
  const Terminal& terminal = context.host().out_terminal;
  context.out() << DrawPlot(points, "Training loss (nats a token)", "steps",
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
  if (!options.follow) PrintCollected(context, std::move(records), options);
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
  verb->add_option("-n,--limit", options->limit, "Only the newest steps")
      ->check(CLI::PositiveNumber)
      ->excludes(follow);
  verb->callback(
      [=] { *action = [options](Context& context) { return Metrics(context, *options); }; });
}

}  // namespace coat
