#include "client/render/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "client/render/live_view.h"

namespace coat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

coatrack::v1::StepRecord Record(int64_t step) {
  coatrack::v1::StepRecord record;
  record.set_step(step);
  record.set_attempt(1);
  record.set_loss(5.5 / static_cast<double>(step + 1));
  record.set_learning_rate(1e-3);
  record.set_grad_norm(1);
  record.set_tokens(512);
  record.set_tokens_total(512 * step);
  record.set_step_seconds(0.1);
  record.set_optimizer_state("fp8_dre e4m3/e4m3");
  for (const char* kind : {"master", "optimizer", "activations"}) {
    for (auto* list : {record.mutable_memory(), record.mutable_memory_planned(),
                       record.mutable_memory_planned_bf16()}) {
      auto* bytes = list->Add();
      bytes->set_kind(kind);
      bytes->set_bytes(1 << 20);
    }
  }
  auto* health = record.add_health();
  health->set_operand("activation");
  health->set_relative_error(0.0265);
  return record;
}

ReportData Data() {
  ReportData data;
  data.job.set_id("6v6nzsaqmm");
  data.job.mutable_spec()->set_name("tiny");
  data.job.mutable_spec()->mutable_labels()->insert({"note", "<script>alert(1)</script> & \"x\""});
  data.job.set_state(coatrack::v1::JOB_STATE_FAILED);
  data.job.set_message("rank 0: a<b & c>d");
  for (int64_t step = 1; step <= 2000; ++step) data.history.Add(Record(step));
  auto* event = &data.events.emplace_back();
  event->set_message("attempt 1 <placed>");
  return data;
}

// Tags that are opened and not closed in order, void elements apart.
std::vector<std::string> Unbalanced(const std::string& html) {
  static const std::set<std::string> kVoid = {"meta", "br", "link", "hr", "img", "input"};
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (html[at + 1] == '!' || end == std::string::npos || html[end - 1] == '/') continue;
    const bool closes = html[at + 1] == '/';
    const size_t first = at + (closes ? 2 : 1);
    const std::string name = html.substr(first, html.find_first_of(" >\n", first) - first);
    if (kVoid.count(name) > 0) continue;
    if (!closes) {
      open.push_back(name);
    } else if (!open.empty() && open.back() == name) {
      open.pop_back();
    } else {
      return {"</" + name + "> at " + std::to_string(at)};
    }
  }
  return open;
}

TEST(ReportTest, IsOneClosedPageThatFetchesNothing) {
  const std::string html = ReportHtml(Data());
  EXPECT_THAT(Unbalanced(html), ::testing::IsEmpty());
  for (const char* outside : {"http://", "https://", "<script", "src=", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme"));
  EXPECT_THAT(html, HasSubstr("<svg"));
}

TEST(ReportTest, EscapesEveryText) {
  const std::string html = ReportHtml(Data());
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(html, HasSubstr("a&lt;b &amp; c&gt;d"));
  EXPECT_THAT(html, HasSubstr("attempt 1 &lt;placed&gt;"));
}

TEST(ReportTest, IsBoundedWhateverTheNumberOfSteps) {
  ReportData data = Data();
  const size_t size = ReportHtml(data).size();
  for (int64_t step = 2001; step <= 20000; ++step) data.history.Add(Record(step));
  EXPECT_LT(ReportHtml(data).size(), size + size / 4);
}

TEST(LiveViewTest, FitsTheScreenAndShowsWhatMatters) {
  const ReportData data = Data();
  WatchSnapshot snapshot;
  snapshot.job = data.job;
  snapshot.history = data.history;
  const ScreenSize size{.columns = 100, .rows = 30};
  const auto lines = LiveLines(snapshot, size, Terminal::Charset::kUtf8, Paint::kPlain);
  EXPECT_LE(lines.size(), 30u);
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  EXPECT_THAT(all, HasSubstr("failed"));
  EXPECT_THAT(all, HasSubstr("optimizer"));
  EXPECT_THAT(all, HasSubstr("2,000 steps"));
}

}  // namespace
}  // namespace coat
