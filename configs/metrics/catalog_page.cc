#include "configs/metrics/catalog_page.h"

#include <string_view>

#include "configs/metrics/catalog.h"

namespace coat {
namespace {

struct PageText {
  MetricPage page;
  const char* title;
  const char* text;
};
constexpr PageText kPages[] = {
    {MetricPage::kFleet, "Coordinator, `/metrics`", "The fleet."},
    {MetricPage::kJobs, "Coordinator, `/metrics/jobs`",
     "Active jobs as a whole; a job's series leave a while after its end."},
    {MetricPage::kRanks, "Worker, `/metrics`",
     "Ranks that live on this worker; their series leave with them."},
};

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kGauge: return "gauge";
    case MetricType::kCounter: return "counter";
    case MetricType::kHistogram: return "histogram";
  }
  return "";
}

std::string Cell(std::string_view text) { return " " + std::string(text) + " |"; }

// "a,b" -> "`a`, `b`"
std::string Labels(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const size_t comma = names.find(',');
    text += (text.empty() ? "`" : ", `") + std::string(names.substr(0, comma)) + "`";
    names = comma == std::string_view::npos ? "" : names.substr(comma + 1);
  }
  return text;
}

}  // namespace

std::string PrintMetrics() {
  std::string page =
      "# Metrics\n"
      "Printed from `configs/metrics/catalog.h`; never edited by hand. Prometheus adds `job`, "
      "`instance` and, for\nworkers, `worker`. A metric that two pages have differs by its labels: "
      "job-wide series have no `rank`.\n";
  for (const PageText& shown : kPages) {
    page += std::string("\n## ") + shown.title + "\n" + shown.text;
    const std::string labels = Labels(PageLabels(shown.page));
    if (!labels.empty()) page += " Labels of each: " + labels + ".";
    page += "\n\n| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
    for (const Metric& metric : kMetrics) {
      if (metric.page != shown.page) continue;
      page += "|" + Cell("`" + std::string(metric.name) + "`") + Cell(TypeName(metric.type)) +
              Cell(metric.unit) + Cell(Labels(metric.labels)) + Cell(metric.help) + "\n";
    }
  }
  return page;
}

}  // namespace coat
