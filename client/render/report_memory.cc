#include <algorithm>
#include <cmath>
#include <vector>

#include "client/render/memory_view.h"
#include "client/render/report_chart.h"
#include "client/render/report_html.h"
#include "client/render/report_sections.h"
#include "client/render/terminal.h"
#include "configs/base/units.h"

namespace coat {
namespace {

using coatrack::v1::StepRecord;

int64_t BytesOf(const KindMap& map, const std::string& kind) {
  const auto found = map.find(kind);
  return found == map.end() ? 0 : found->second;
}

std::string Bytes(double value) { return FormatBytes(std::llround(std::max(0.0, value))); }

std::vector<StepRecord> Measured(const RunHistory& history) {
  std::vector<StepRecord> all = history.Records(), records;
  std::copy_if(all.begin(), all.end(), std::back_inserter(records),
               [](const StepRecord& record) { return record.memory_size() > 0; });
  const size_t stride = records.size() / kReportPoints + 1;
  std::vector<StepRecord> thinned;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i % stride == 0 || i + 1 == records.size()) thinned.push_back(records[i]);
  }
  return thinned;
}

// Kinds stacked; the plans end where planned kinds do, below `other`.
Chart OverTime(const std::vector<StepRecord>& records, const std::vector<std::string>& kinds) {
  Chart chart{.title = "Memory of rank 0 by kind",
              .summary =
                  "Stacked, as measured; the lines are the plans without what lies outside "
                  "the arena (other).",
              .format_y = Bytes,
              .scale = Chart::Scale::kFromZero,
              .series = {}};
  std::vector<double> base(records.size(), 0);
  for (size_t k = 0; k < kinds.size(); ++k) {
    ChartSeries series{.name = kinds[k],
                       .mark = ChartSeries::Mark::kArea,
                       .colour = kinds[k] == "other" ? 7 : static_cast<int>(k % 7),
                       .points = {},
                       .base = base};
    for (size_t i = 0; i < records.size(); ++i) {
      base[i] += static_cast<double>(BytesOf(ToKindMap(records[i].memory()), kinds[k]));
      series.points.push_back({static_cast<double>(records[i].step()), base[i]});
    }
    chart.series.push_back(std::move(series));
  }
  const auto plan = [&](const char* name, int colour, const auto& kinds_of) {
    ChartSeries series{
        .name = name, .mark = ChartSeries::Mark::kDashed, .colour = colour, .points = {}};
    for (const StepRecord& record : records) {
      const int64_t total = TotalBytes(ToKindMap(kinds_of(record)));
      if (total > 0) {
        series.points.push_back({static_cast<double>(record.step()), static_cast<double>(total)});
      }
    }
    chart.series.push_back(std::move(series));
  };
  plan("planned", 0, [](const StepRecord& record) { return record.memory_planned(); });
  plan("planned for bf16", 5,
       [](const StepRecord& record) { return record.memory_planned_bf16(); });
  return chart;
}

std::string Meter(const std::string& kind, const KindMap* const maps[3], int64_t most) {
  static constexpr int kColours[] = {0, 4, 5};
  static constexpr const char* kNames[] = {"measured", "planned", "planned for bf16"};
  std::string bars, label = kind;
  for (int i = 0; i < 3; ++i) {
    const int64_t bytes = BytesOf(*maps[i], kind);
    bars +=
        Element("div",
                "class=\"c" + std::to_string(kColours[i]) + "\" style=\"width:" +
                    Number(100.0 * static_cast<double>(bytes) / static_cast<double>(most)) + "%\"",
                "");
    label += std::string(i == 0 ? ": " : ", ") + kNames[i] + " " + FormatBytes(bytes);
  }
  return Element("div", "class=\"meter\" role=\"img\" aria-label=\"" + Escape(label) + "\"",
                 Element("span", "", Escape(kind)) + bars);
}

std::string KindBars(const std::vector<std::string>& kinds, const KindMap& measured,
                     const KindMap& planned, const KindMap& bf16) {
  const KindMap* const maps[3] = {&measured, &planned, &bf16};
  int64_t most = 1;
  for (const std::string& kind : kinds) {
    for (const KindMap* map : maps) most = std::max(most, BytesOf(*map, kind));
  }
  std::string inner = Element("figcaption", "", "By kind") +
                      Element("ul", "class=\"legend\"",
                              "<li><span class=\"key box c0\"></span>measured</li>"
                              "<li><span class=\"key box c4\"></span>planned</li>"
                              "<li><span class=\"key box c5\"></span>planned for bf16</li>");
  for (const std::string& kind : kinds) inner += Meter(kind, maps, most);
  return Element("figure", "", inner);
}

HtmlTable KindTable(const std::vector<std::string>& kinds, const KindMap& measured,
                    const KindMap& planned, const KindMap& bf16) {
  HtmlTable table{.caption = "Memory of rank 0, newest measurement",
                  .heads = {"Kind", "Measured", "Planned", "Planned for bf16", "Against bf16"},
                  .rows = {}};
  const auto add = [&](const std::string& name, int64_t is, int64_t plan, int64_t against) {
    table.rows.push_back({name, FormatBytes(is), FormatBytes(plan), FormatBytes(against),
                          against > 0 ? DifferenceText(is, against) : "-"});
  };
  for (const std::string& kind : kinds) {
    add(kind, BytesOf(measured, kind), BytesOf(planned, kind), BytesOf(bf16, kind));
  }
  add("total without other", TotalBytes(measured) - BytesOf(measured, "other"), TotalBytes(planned),
      TotalBytes(bf16));
  return table;
}

HtmlTable TimeTable(const std::vector<StepRecord>& records, const std::vector<std::string>& kinds) {
  HtmlTable table{.caption = "Memory of rank 0 over time", .heads = {"Step"}, .rows = {}};
  table.heads.insert(table.heads.end(), kinds.begin(), kinds.end());
  const size_t stride = records.size() / kReportRows + 1;
  for (size_t i = 0; i < records.size(); i += stride) {
    const KindMap map = ToKindMap(records[i].memory());
    std::vector<std::string> row = {FormatCount(records[i].step())};
    for (const std::string& kind : kinds) row.push_back(FormatBytes(BytesOf(map, kind)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::string MemorySection(const ReportData& data) {
  const StepRecord* newest = data.history.newest_memory();
  if (newest == nullptr) {
    return Section("memory", "Memory", Element("p", "class=\"none\"", "Nothing was measured."));
  }
  const KindMap measured = ToKindMap(newest->memory());
  const KindMap planned = ToKindMap(newest->memory_planned());
  const KindMap bf16 = ToKindMap(newest->memory_planned_bf16());
  const std::vector<std::string> kinds = KindsOf({measured, planned, bf16});
  const std::vector<StepRecord> records = Measured(data.history);
  std::string inner;
  if (data.device_bytes > 0) {
    const double share =
        100.0 * static_cast<double>(TotalBytes(measured)) / static_cast<double>(data.device_bytes);
    inner += Element("p", "",
                     Escape(FormatBytes(TotalBytes(measured)) + " of the device's " +
                            FormatBytes(data.device_bytes) + " (" + FormatReal(share, 1) + " %)."));
  }
  inner += ScrollTable(KindTable(kinds, measured, planned, bf16));
  inner += KindBars(kinds, measured, planned, bf16);
  inner += ChartHtml(OverTime(records, kinds));
  inner += FoldedTable("Memory over time as a table", TimeTable(records, kinds));
  return Section("memory", "Memory", inner);
}

}  // namespace coat
