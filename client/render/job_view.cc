#include "client/render/job_view.h"

#include <algorithm>

#include "client/render/table.h"
#include "configs/base/units.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema

// "no_free_devices" -> "no free devices"
std::string Words(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string Steps(const Job& job) {
  return std::to_string(job.step()) + "/" + std::to_string(job.steps());
}

std::string Optional(bool has, double value, int digits) {
  return has ? FormatReal(value, digits) : "-";
}

std::string Placement(const Job& job) {
  std::string text;
  for (const RankPlacement& rank : job.placement()) {
    text += (text.empty() ? "" : ",") + rank.worker() + "/" + rank.device();
  }
  return text.empty() ? "-" : text;
}

std::string RunTime(const Job& job, int64_t now) {
  if (!job.has_started_at()) return "-";
  const int64_t end = job.has_finished_at() ? job.finished_at().seconds() : now;
  return FormatAge(end - job.started_at().seconds());
}

class Lines {
 public:
  void Add(const std::string& name, const std::string& value) {
    constexpr size_t kNameColumns = 14;
    text_ += name + ":" + std::string(kNameColumns - std::min(kNameColumns - 1, name.size()), ' ') +
             Printable(value) + "\n";
  }
  void AddTime(const std::string& name, bool has, int64_t seconds, int64_t now) {
    if (has) Add(name, FormatTime(seconds) + " (" + FormatAge(now - seconds) + " ago)");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string LabelsText(const google::protobuf::Map<std::string, std::string>& labels) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels) parts.emplace_back(key).append("=").append(value);
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text.empty() ? "-" : text;
}

std::string RecipeText(const JobSpec& spec) {
  return spec.precision().has_recipe() ? EnumWord(spec.precision().recipe()) : "coat";
}

std::string ReasonText(Reason reason) {
  if (reason == REASON_UNSPECIFIED || reason == REASON_COMPLETED) return "";
  return Words(EnumWord(reason));
}

bool IsFinished(JobState state) {
  return state == JOB_STATE_SUCCEEDED || state == JOB_STATE_FAILED || state == JOB_STATE_CANCELLED;
}

std::string StateText(const Job& job) {
  const std::string state = EnumWord(job.state());
  if (job.state() == JOB_STATE_PENDING && job.pending_reason() != PENDING_REASON_UNSPECIFIED) {
    return state + " (" + Words(EnumWord(job.pending_reason())) + ")";
  }
  if (job.state() == JOB_STATE_FAILED && job.reason() != REASON_UNSPECIFIED) {
    return state + " (" + Words(EnumWord(job.reason())) + ")";
  }
  return job.cancel_requested() && !IsFinished(job.state()) ? state + " (cancel asked)" : state;
}

std::string JobTable(const std::vector<Job>& jobs, OutputFormat format, int64_t now) {
  std::vector<Table::Column> columns = {{"ID", Align::kLeft},    {"NAME", Align::kLeft},
                                        {"STATE", Align::kLeft}, {"STEP", Align::kRight},
                                        {"LOSS", Align::kRight}, {"TOK/S", Align::kRight},
                                        {"AGE", Align::kRight}};
  const bool wide = format == OutputFormat::kWide;
  if (wide) {
    for (const char* head :
         {"RECIPE", "RANKS", "ATTEMPT", "RUN", "MEMORY", "PLACEMENT", "LABELS"}) {
      columns.push_back({head, Align::kLeft});
    }
  }
  Table table(columns);
  for (const Job& job : jobs) {
    std::vector<std::string> cells = {
        job.id(),
        job.spec().name(),
        StateText(job),
        Steps(job),
        Optional(job.has_loss(), job.loss(), 4),
        job.has_tokens_per_second() ? FormatRate(job.tokens_per_second()) : "-",
        FormatAge(now - job.submitted_at().seconds())};
    if (wide) {
      cells.push_back(RecipeText(job.spec()));
      cells.push_back(std::to_string(std::max(1, job.spec().resources().ranks())));
      cells.push_back(std::to_string(job.attempt()));
      cells.push_back(RunTime(job, now));
      cells.push_back(job.predicted_bytes() > 0 ? FormatBytes(job.predicted_bytes()) : "-");
      cells.push_back(Placement(job));
      cells.push_back(LabelsText(job.spec().labels()));
    }
    table.Add(std::move(cells));
  }
  return table.ToString();
}

std::string EventLine(const JobEvent& event) {
  std::string line = FormatClock(event.time().seconds()) + "  " + EnumWord(event.state());
  if (event.attempt() > 0) line += "  attempt " + std::to_string(event.attempt());
  const std::string reason = ReasonText(event.reason());
  if (!reason.empty()) line += "  " + reason;
  if (!event.message().empty()) line += "  " + event.message();
  return Printable(line);
}

std::string EventTable(const std::vector<JobEvent>& events, OutputFormat format) {
  const bool wide = format == OutputFormat::kWide;
  std::vector<Table::Column> columns;
  if (wide) columns.push_back({"SEQUENCE", Align::kRight});
  for (const char* head : {"TIME", "STATE"}) columns.push_back({head, Align::kLeft});
  columns.push_back({"ATTEMPT", Align::kRight});
  for (const char* head : {"REASON", "MESSAGE"}) columns.push_back({head, Align::kLeft});
  Table table(columns);
  for (const JobEvent& event : events) {
    std::vector<std::string> cells;
    if (wide) cells.push_back(std::to_string(event.sequence()));
    const int64_t time = event.time().seconds();
    cells.push_back(wide ? FormatTime(time) : FormatClock(time));
    cells.push_back(EnumWord(event.state()));
    cells.push_back(event.attempt() > 0 ? std::to_string(event.attempt()) : "-");
    const std::string reason = ReasonText(event.reason());
    cells.push_back(reason.empty() ? "-" : reason);
    cells.push_back(event.message());
    table.Add(std::move(cells));
  }
  return table.ToString();
}

std::string JobText(const Job& job, const std::vector<JobEvent>& events, int64_t now) {
  Lines lines;
  lines.Add("Id", job.id());
  lines.Add("Name", job.spec().name());
  lines.Add("State", StateText(job));
  if (!job.message().empty()) lines.Add("Message", job.message());
  lines.Add("Step", Steps(job));
  if (job.has_loss()) lines.Add("Loss", FormatReal(job.loss(), 4));
  if (job.has_validation_loss()) {
    lines.Add("Validation", FormatReal(job.validation_loss(), 4));
  }
  if (job.has_tokens_per_second()) lines.Add("Tokens/s", FormatRate(job.tokens_per_second()));
  lines.Add("Recipe", RecipeText(job.spec()));
  lines.Add("Attempt", std::to_string(job.attempt()) + " (" + std::to_string(job.restarts()) +
                           " counted against max_restarts)");
  if (!job.owner().empty()) lines.Add("Owner", job.owner());
  lines.AddTime("Submitted", job.has_submitted_at(), job.submitted_at().seconds(), now);
  lines.AddTime("Started", job.has_started_at(), job.started_at().seconds(), now);
  lines.AddTime("Finished", job.has_finished_at(), job.finished_at().seconds(), now);
  if (job.predicted_bytes() > 0)
    lines.Add("Memory", FormatBytes(job.predicted_bytes()) + " a rank");
  for (const RankPlacement& rank : job.placement()) {
    lines.Add("Rank " + std::to_string(rank.rank()), rank.worker() + " " + rank.device());
  }
  if (!job.checkpoint_dir().empty()) {
    lines.Add("Checkpoint",
              job.checkpoint_dir() + " (step " + std::to_string(job.checkpoint_step()) + ")");
  }
  lines.Add("Labels", LabelsText(job.spec().labels()));
  if (!job.request_id().empty()) lines.Add("Request id", job.request_id());
  std::string text = lines.text();
  if (!events.empty()) text += "Events:\n";
  for (const JobEvent& event : events) text += "  " + EventLine(event) + "\n";
  return text;
}

}  // namespace coat
