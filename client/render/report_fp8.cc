#include <algorithm>
#include <map>
#include <vector>

#include "client/render/fp8_view.h"
#include "client/render/report_chart.h"
#include "client/render/report_html.h"
#include "client/render/report_sections.h"
#include "client/render/terminal.h"
#include "configs/base/units.h"

namespace coat {
namespace {

using coatrack::v1::Histogram;
using coatrack::v1::OperandHealth;
using coatrack::v1::StepRecord;

// A series an operand, in order of their first appearance.
template <typename ValueOf>
std::vector<ChartSeries> ByOperand(const std::vector<StepRecord>& records,
                                   const ValueOf& value_of) {
  std::vector<ChartSeries> all;
  for (const StepRecord& record : records) {
    for (const OperandHealth& health : record.health()) {
      const std::string name = OperandText(health.operand());
      auto found = std::find_if(all.begin(), all.end(),
                                [&](const ChartSeries& series) { return series.name == name; });
      if (found == all.end()) {
        all.push_back({.name = name, .colour = static_cast<int>(all.size() % 8), .points = {}});
        found = all.end() - 1;
      }
      found->points.push_back({static_cast<double>(record.step()), value_of(health)});
    }
  }
  for (ChartSeries& series : all) series.points = Thin(series.points, kReportPoints);
  return all;
}

HtmlTable HealthTable(const std::vector<StepRecord>& records) {
  HtmlTable table{.caption = "FP8 health",
                  .heads = {"Step", "Operand", "Error", "Saturated", "Flushed", "Smallest scale",
                            "Largest scale"},
                  .rows = {}};
  std::vector<StepRecord> shown;
  for (const StepRecord& record : records) {
    if (record.health_size() > 0) shown.push_back(record);
  }
  constexpr size_t kOperands = 4;
  const size_t stride = shown.size() / (kReportRows / kOperands) + 1;
  for (size_t i = 0; i < shown.size(); i += stride) {
    for (const OperandHealth& health : shown[i].health()) {
      table.rows.push_back({FormatCount(shown[i].step()), OperandText(health.operand()),
                            PercentText(health.relative_error()),
                            PercentText(health.saturated_ratio()),
                            PercentText(health.flushed_ratio()), FormatReal(health.scale_min(), 6),
                            FormatReal(health.scale_max(), 6)});
    }
  }
  return table;
}

std::string MomentChart(const std::string& name, int colour, const Histogram& histogram) {
  int64_t total = 0, most = 1;
  for (const int64_t count : histogram.counts()) {
    total += count;
    most = std::max(most, count);
  }
  std::vector<ChartBar> bars;
  HtmlTable table{.caption = "k of " + name, .heads = {"k", "Groups"}, .rows = {}};
  for (int i = 0; i < histogram.counts_size(); ++i) {
    const std::string bucket = BucketText(histogram, i), count = FormatCount(histogram.counts(i));
    // The labels say "up to"; the table says it in full.
    const std::string label = bucket.rfind("<= ", 0) == 0 ? bucket.substr(3) : bucket;
    bars.push_back(
        {label, count, static_cast<double>(histogram.counts(i)) / static_cast<double>(most)});
    table.rows.push_back({bucket, count});
  }
  const int median = MedianBucket(histogram);
  const std::string summary =
      FormatCount(total) + " groups" +
      (median < 0 ? "." : ", the median k is " + BucketText(histogram, median) + ".");
  return Element("div", "",
                 BarsHtml("k of " + name + " (groups up to each k)", summary, colour, bars) +
                     FoldedTable("k of " + name + " as a table", table));
}

}  // namespace

std::string Fp8Section(const ReportData& data) {
  const std::vector<StepRecord> records = data.history.Records();
  if (data.history.newest_health() == nullptr) {
    return Section("fp8", "FP8 health",
                   Element("p", "class=\"none\"",
                           "Nothing was recorded; train.telemetry_every_steps says when it is, and "
                           "recipe bf16 has none."));
  }
  const auto percent = [](double value) { return PercentText(value); };
  std::string inner = ChartHtml(
      {.title = "Relative quantization error by operand",
       .summary = "Root of the squared error over the squared values, on a logarithmic scale.",
       .format_y = percent,
       .scale = Chart::Scale::kLog,
       .series = ByOperand(records, [](const auto& health) { return health.relative_error(); })});
  inner += ChartHtml(
      {.title = "Saturated codes by operand",
       .summary = "Share of codes at the largest value, on a logarithmic scale; groups of 16 reach "
                  "it by design.",
       .format_y = percent,
       .scale = Chart::Scale::kLog,
       .series = ByOperand(records, [](const auto& health) { return health.saturated_ratio(); })});
  return Section("fp8", "FP8 health",
                 inner + FoldedTable("FP8 health as a table", HealthTable(records)));
}

std::string MomentsSection(const ReportData& data) {
  const StepRecord* newest = nullptr;
  const std::vector<StepRecord> records = data.history.Records();
  for (const StepRecord& record : records) {
    if (MedianBucket(record.expansion_k_m()) >= 0 || MedianBucket(record.expansion_k_v()) >= 0) {
      newest = &record;
    }
  }
  std::string inner;
  if (newest == nullptr) {
    inner = Element("p", "class=\"none\"",
                    "No expansion was recorded; optimizer state fp8_dre has one.");
  } else {
    inner = Element("p", "",
                    Escape("At step " + FormatCount(newest->step()) + ", optimizer state " +
                           (newest->optimizer_state().empty() ? "not reported"
                                                              : newest->optimizer_state()) +
                           ".")) +
            Element("div", "class=\"two\"",
                    MomentChart("the first moment m", 0, newest->expansion_k_m()) +
                        MomentChart("the second moment v", 3, newest->expansion_k_v()));
  }
  return Section("moments", "Optimizer moments", inner);
}

}  // namespace coat
