#include <algorithm>
#include <cmath>
#include <vector>

#include "client/render/report_chart.h"
#include "client/render/report_html.h"
#include "client/render/report_sections.h"
#include "client/render/terminal.h"
#include "configs/base/units.h"

namespace coat {
namespace {

using coatrack::v1::StepRecord;

template <typename Has, typename Value>
std::vector<PlotPoint> Curve(const std::vector<StepRecord>& records, const Has& has,
                             const Value& value) {
  std::vector<PlotPoint> points;
  for (const StepRecord& record : records) {
    if (has(record)) points.push_back({static_cast<double>(record.step()), value(record)});
  }
  return points;
}

std::string Span(const std::vector<PlotPoint>& points, int digits) {
  if (points.empty()) return "nothing";
  return FormatReal(points.front().y, digits) + " at step " +
         FormatCount(std::llround(points.front().x)) + ", " + FormatReal(points.back().y, digits) +
         " at step " + FormatCount(std::llround(points.back().x));
}

std::string Cell(bool has, double value, int digits) {
  return has ? FormatReal(value, digits) : "-";
}

// Evenly chosen steps, and every one with a validation loss while there is room.
HtmlTable StepTable(const std::vector<StepRecord>& records) {
  HtmlTable table{.caption = "Steps",
                  .heads = {"Step", "Loss", "Validation", "Learning rate", "Gradient norm",
                            "Seconds", "Attempt"},
                  .rows = {}};
  const size_t stride = records.size() / (kReportRows / 2) + 1;
  int validations = kReportRows / 2;
  for (size_t i = 0; i < records.size(); ++i) {
    const StepRecord& record = records[i];
    const bool validated = record.has_validation_loss() && validations > 0;
    if (i % stride != 0 && i + 1 != records.size() && !validated) continue;
    if (validated) --validations;
    table.rows.push_back({FormatCount(record.step()), Cell(record.has_loss(), record.loss(), 4),
                          Cell(record.has_validation_loss(), record.validation_loss(), 4),
                          Cell(record.has_learning_rate(), record.learning_rate(), 6),
                          Cell(record.has_grad_norm(), record.grad_norm(), 3),
                          FormatReal(record.step_seconds(), 3), std::to_string(record.attempt())});
  }
  return table;
}

}  // namespace

std::string CurvesSection(const ReportData& data) {
  const std::vector<StepRecord> records = data.history.Records();
  const std::vector<PlotPoint> loss = data.history.Losses();
  const std::vector<PlotPoint> validation = data.history.ValidationLosses();
  const auto rate = Curve(
      records, [](const auto& record) { return record.has_learning_rate(); },
      [](const auto& record) { return record.learning_rate(); });
  const auto norm = Curve(
      records, [](const auto& record) { return record.has_grad_norm(); },
      [](const auto& record) { return record.grad_norm(); });
  using Mark = ChartSeries::Mark;
  const auto format = [](double value) { return FormatReal(value, 3); };
  std::string inner = ChartHtml(
      {.title = "Loss (nats a token)",
       .summary = "Training " + Span(loss, 4) + "; validation " + Span(validation, 4) + ".",
       .format_y = format,
       .series = {{.name = "training", .colour = 0, .points = Thin(loss, kReportPoints)},
                  {.name = "validation",
                   .mark = Mark::kPoints,
                   .colour = 1,
                   .points = Thin(validation, kReportPoints)}}});
  inner += Element(
      "div", "class=\"two\"",
      ChartHtml({.title = "Learning rate",
                 .summary = Span(rate, 6) + ".",
                 .format_y = [](double value) { return FormatReal(value, 5); },
                 .scale = Chart::Scale::kFromZero,
                 .series = {{.name = "learning rate",
                             .colour = 2,
                             .points = Thin(rate, kReportPoints)}}}) +
          ChartHtml(
              {.title = "Gradient norm before clipping",
               .summary = Span(norm, 3) + ".",
               .format_y = format,
               .scale = Chart::Scale::kFromZero,
               .series = {{.name = "norm", .colour = 3, .points = Thin(norm, kReportPoints)}}}));
  if (records.size() > static_cast<size_t>(kReportPoints)) {
    inner += Element("p", "class=\"note\"", "Curves show means over neighbouring steps.");
  }
  return Section("training", "Training",
                 inner + FoldedTable("Steps as a table", StepTable(records)));
}

}  // namespace coat
