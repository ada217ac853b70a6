#include "client/render/resource_view.h"

#include <algorithm>
#include <cmath>

#include "client/render/job_view.h"
#include "client/render/table.h"
#include "configs/base/units.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema

std::string Optional(bool has, double value, int digits) {
  return has ? FormatReal(value, digits) : "-";
}

// "0.2s" below two minutes, then as FormatAge.
std::string HeartbeatText(double seconds) {
  if (!(seconds < 120)) return FormatAge(seconds < 1e15 ? std::llround(seconds) : 0);
  const int64_t tenths = std::llround(std::max(0.0, seconds) * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "s";
}

}  // namespace

std::string WorkerTable(const google::protobuf::RepeatedPtrField<Worker>& workers,
                        OutputFormat format) {
  std::vector<Table::Column> columns = {{"NAME", Align::kLeft},     {"STATE", Align::kLeft},
                                        {"DEVICES", Align::kRight}, {"FREE", Align::kRight},
                                        {"MEMORY", Align::kRight},  {"HEARTBEAT", Align::kRight}};
  const bool wide = format == OutputFormat::kWide;
  if (wide) {
    for (const char* head :
         {"ADDRESS", "VERSION", "METRICS", "ROOTS", "LABELS", "JOBS", "MESSAGE"}) {
      columns.push_back({head, Align::kLeft});
    }
  }
  Table table(columns);
  for (const Worker& worker : workers) {
    int free = 0;
    int64_t bytes = 0;
    std::string jobs, roots;
    for (const Device& device : worker.devices()) {
      free += device.job_id().empty() ? 1 : 0;
      bytes += device.total_bytes();
      if (!device.job_id().empty()) jobs += (jobs.empty() ? "" : ",") + device.job_id();
    }
    for (const StorageRoot& root : worker.roots()) {
      roots += (roots.empty() ? "" : ",") + root.name();
    }
    std::vector<std::string> cells = {worker.name(),
                                      EnumWord(worker.state()),
                                      std::to_string(worker.devices_size()),
                                      std::to_string(free),
                                      FormatBytes(bytes),
                                      HeartbeatText(worker.heartbeat_age_seconds())};
    if (wide) {
      cells.push_back(worker.address());
      cells.push_back(worker.version());
      cells.push_back(worker.metrics_address());
      cells.push_back(roots.empty() ? "-" : roots);
      cells.push_back(LabelsText(worker.labels()));
      cells.push_back(jobs.empty() ? "-" : jobs);
      cells.push_back(worker.message().empty() ? "-" : worker.message());
    }
    table.Add(std::move(cells));
  }
  return table.ToString();
}

std::string CheckpointTable(const google::protobuf::RepeatedPtrField<Checkpoint>& checkpoints) {
  Table table({{"STEP", Align::kRight},
               {"ATTEMPT", Align::kRight},
               {"SIZE", Align::kRight},
               {"TIME", Align::kLeft},
               {"LOSSES", Align::kLeft},
               {"PINNED", Align::kLeft},
               {"PATH", Align::kLeft}});
  for (const Checkpoint& checkpoint : checkpoints) {
    table.Add({std::to_string(checkpoint.step()), std::to_string(checkpoint.attempt()),
               FormatBytes(checkpoint.bytes()), FormatTime(checkpoint.time().seconds()),
               checkpoint.finite() ? "finite" : "not finite", checkpoint.pinned() ? "yes" : "no",
               checkpoint.path()});
  }
  return table.ToString();
}

std::string RecordTable(const std::vector<StepRecord>& records) {
  Table table({{"STEP", Align::kRight},
               {"ATTEMPT", Align::kRight},
               {"LOSS", Align::kRight},
               {"VALIDATION", Align::kRight},
               {"LR", Align::kRight},
               {"GRAD NORM", Align::kRight},
               {"TOK/S", Align::kRight},
               {"SECONDS", Align::kRight},
               {"NOTE", Align::kLeft}});
  for (const StepRecord& record : records) {
    const double rate = record.step_seconds() > 0
                            ? static_cast<double>(record.tokens()) / record.step_seconds()
                            : -1;
    table.Add({std::to_string(record.step()), std::to_string(record.attempt()),
               Optional(record.has_loss(), record.loss(), 4),
               Optional(record.has_validation_loss(), record.validation_loss(), 4),
               Optional(record.has_learning_rate(), record.learning_rate(), 6),
               Optional(record.has_grad_norm(), record.grad_norm(), 3), FormatRate(rate),
               FormatReal(record.step_seconds(), 3),
               record.skipped()              ? "skipped"
               : record.checkpoint().empty() ? ""
                                             : "checkpoint"});
  }
  return table.ToString();
}

}  // namespace coat
