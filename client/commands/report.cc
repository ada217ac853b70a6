#include "client/render/report.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <random>

#include "client/commands/load.h"
#include "client/commands/verbs.h"

namespace coat {
namespace {

struct Options {
  std::string job;
  std::string file;
};

// Under a name of its own first, so that a reader never sees half a report.
Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string part = path + "." + std::to_string(std::random_device()()) + ".part";
  std::ofstream file(part, std::ios::binary);
  file << text;
  file.close();
  std::error_code fault;
  if (file) std::filesystem::rename(part, path, fault);
  if (file && !fault) return Status();
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  return Status(Code::kIo, path + ": cannot be written" +
                               (fault ? " (" + fault.message() + ")" : std::string()) +
                               "; name another file with -O");
}

Result<ReportData> LoadReport(Context& context, const std::string& name) {
  ASSIGN_OR_RETURN(JobClient* const client, context.Connect());
  coatrack::v1::GetRequest request;
  request.set_job(name);
  ASSIGN_OR_RETURN(const auto found, client->Get(request));
  ReportData data;
  data.job = found.job();
  ASSIGN_OR_RETURN(data.history, LoadHistory(client, data.job.id()));
  ASSIGN_OR_RETURN(data.events, LoadEvents(client, data.job.id()));
  data.device_bytes = LoadDeviceBytes(client, data.job);
  data.now_s = context.now_s();
  return data;
}

int Report(Context& context, const Options& options) {
  const auto data = LoadReport(context, options.job);
  if (!data.ok()) return context.Fail(data.status());
  const std::string html = ReportHtml(*data);
  if (options.file == "-") {
    context.out() << html << std::flush;
    return kExitOk;
  }
  const std::string path =
      options.file.empty() ? "coat-report-" + data->job.id() + ".html" : options.file;
  const Status written = WriteWhole(path, html);
  if (!written.ok()) return context.Fail(written);
  context.Say("The report of job " + data->job.id() + " is written; open it in a browser.");
  context.out() << path << std::endl;
  return kExitOk;
}

}  // namespace

void AddReport(CLI::App* app, Action* action) {
  CLI::App* verb =
      app->add_subcommand("report", "Write one HTML file about a job: curves, memory, FP8, events");
  const auto options = std::make_shared<Options>();
  AddJob(verb, &options->job);
  verb->add_option("-O,--out", options->file,
                   "Where to; '-' is standard output; coat-report-JOB.html by default")
      ->type_name("FILE");
  verb->callback(
      [=] { *action = [options](Context& context) { return Report(context, *options); }; });
}

}  // namespace coat
