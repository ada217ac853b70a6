#include "client/render/report.h"

#include <algorithm>
#include <cmath>

#include "client/render/fp8_view.h"
#include "client/render/job_view.h"
#include "client/render/memory_view.h"
#include "client/render/report_html.h"
#include "client/render/report_sections.h"
#include "client/render/report_style.h"
#include "configs/base/units.h"
#include "configs/spec/words.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema

std::string Tile(const std::string& name, const std::string& value, const char* style = "") {
  return Element(
      "li", "",
      Element("span", "", Escape(name)) +
          Element("b", *style == 0 ? "" : std::string("class=\"") + style + "\"", Escape(value)));
}

const char* StateStyle(JobState state) {
  if (state == JOB_STATE_SUCCEEDED || state == JOB_STATE_RUNNING) return "good";
  return state == JOB_STATE_FAILED ? "bad" : "warn";
}

// What planned kinds take, measured, against the plan for bf16.
std::string SavedText(const StepRecord& record) {
  const KindMap measured = ToKindMap(record.memory());
  const auto other = measured.find("other");
  const int64_t is = TotalBytes(measured) - (other == measured.end() ? 0 : other->second);
  const int64_t against = TotalBytes(ToKindMap(record.memory_planned_bf16()));
  return against > 0 ? FormatBytes(is) + " (" + DifferenceText(is, against) + ")" : FormatBytes(is);
}

std::string Tiles(const ReportData& data) {
  const Job& job = data.job;
  const RunHistory& history = data.history;
  std::string tiles = Tile("State", StateText(job), StateStyle(job.state()));
  tiles += Tile("Step", FormatCount(job.step()) + " of " + FormatCount(job.steps()));
  if (job.has_loss()) tiles += Tile("Training loss", FormatReal(job.loss(), 4));
  if (const auto last = history.last_validation_loss(); last.has_value()) {
    tiles += Tile("Validation loss",
                  FormatReal(*history.first_validation_loss(), 4) + " to " + FormatReal(*last, 4));
  }
  const double seconds = history.step_seconds_total();
  if (seconds > 0) {
    const auto tokens = static_cast<double>(history.tokens_total());
    tiles += Tile("Tokens a second", FormatRate(tokens / seconds));
    tiles += Tile("Tokens", FormatCount(history.tokens_total()));
  }
  if (const StepRecord* memory = history.newest_memory(); memory != nullptr) {
    tiles += Tile("Memory against bf16", SavedText(*memory));
  }
  if (const StepRecord* health = history.newest_health(); health != nullptr) {
    const bool healthy = JudgeFp8(*health) == Fp8Health::kHealthy;
    tiles += Tile("FP8", healthy ? "healthy" : "needs attention", healthy ? "good" : "warn");
  }
  const int64_t skipped = history.empty() ? 0 : history.newest()->skipped_total();
  tiles += Tile("Skipped steps", FormatCount(skipped), skipped > 0 ? "warn" : "");
  tiles += Tile("Recipe", RecipeText(job.spec()));
  return Element("ul", "class=\"tiles\"", tiles);
}

std::string Navigation() {
  static constexpr const char* kLinks[][2] = {
      {"training", "Training"},         {"memory", "Memory"}, {"fp8", "FP8 health"},
      {"moments", "Optimizer moments"}, {"events", "Events"}, {"job", "Job file"}};
  std::string items;
  for (const auto& link : kLinks) {
    items += Element("li", "", Element("a", std::string("href=\"#") + link[0] + "\"", link[1]));
  }
  return Element("nav", "aria-label=\"Sections\"", Element("ul", "", items)) + "\n";
}

std::string Head(const ReportData& data) {
  const Job& job = data.job;
  std::string line = "Job " + job.id();
  if (job.has_submitted_at()) line += ", submitted " + FormatTime(job.submitted_at().seconds());
  if (job.has_finished_at()) line += ", finished " + FormatTime(job.finished_at().seconds());
  for (const RankPlacement& rank : job.placement()) {
    line += ", rank " + std::to_string(rank.rank()) + " on " + rank.worker() + " " + rank.device();
  }
  std::string head = Element("h1", "", Escape(job.spec().name())) + "\n";
  head += Element("p", "", Escape(line) + ".") + "\n";
  if (!job.message().empty()) head += Element("p", "", Escape(job.message())) + "\n";
  return Element("header", "", head + Tiles(data)) + "\n";
}

}  // namespace

std::string EventsSection(const ReportData& data) {
  HtmlTable table{.caption = "Events, oldest first",
                  .heads = {"Time", "State", "Attempt", "Reason", "Message"},
                  .rows = {}};
  for (const JobEvent& event : data.events) {
    const std::string reason = ReasonText(event.reason());
    table.rows.push_back({FormatTime(event.time().seconds()), EnumWord(event.state()),
                          event.attempt() > 0 ? std::to_string(event.attempt()) : "-",
                          reason.empty() ? "-" : reason, event.message()});
  }
  return Section("events", "Events", ScrollTable(table));
}

std::string JobFileSection(const ReportData& data) {
  return Section("job", "Job file",
                 Element("p", "", "As submitted; it can be submitted again.") +
                     Element("pre", "tabindex=\"0\" role=\"region\" aria-label=\"Job file\"",
                             Escape(ToYaml(data.job.spec()))));
}

std::string ReportHtml(const ReportData& data) {
  const std::string title = Escape(data.job.spec().name() + " (" + data.job.id() + ")");
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" "
         "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n" +
         Element("title", "", title) + "\n" + Element("style", "", kReportStyle) +
         "\n</head>\n<body>\n" + "<a class=\"skip\" href=\"#training\">To the curves</a>\n" +
         Head(data) + Navigation() + "<main>\n" + CurvesSection(data) + MemorySection(data) +
         Fp8Section(data) + MomentsSection(data) + EventsSection(data) + JobFileSection(data) +
         "</main>\n" +
         Element("footer", "", Escape("Written " + FormatTime(data.now_s) + " by coat report.")) +
         "\n</body>\n</html>\n";
}

}  // namespace coat
