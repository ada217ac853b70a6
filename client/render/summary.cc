#include "client/render/summary.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "client/render/job_view.h"
#include "client/render/memory_view.h"
#include "configs/base/units.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

using coatrack::v1::Job;
using coatrack::v1::StepRecord;

std::string Upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string ValidationText(const RunHistory& history) {
  const auto before = history.first_validation_loss(), after = history.last_validation_loss();
  if (!before.has_value()) return "";
  return "Validation loss: " + FormatReal(*before, 4) + " before, " + FormatReal(*after, 4) +
         " after (nats a token)\n";
}

std::string SpeedText(const RunHistory& history) {
  const int64_t tokens = history.tokens_total();
  const double seconds = history.step_seconds_total();
  if (tokens == 0 || seconds <= 0) return "";
  return "Trained on " + FormatCount(tokens) + " tokens in " +
         FormatDurationMs(std::llround(seconds * 1000)) + " of steps (" +
         FormatRate(static_cast<double>(tokens) / seconds) + " tokens/s)\n";
}

// What the coordinator lists or, until it has heard of it, what the run itself reported.
std::string CheckpointText(const Job& job, const RunHistory& history) {
  std::string path = job.checkpoint_dir();
  int64_t step = job.checkpoint_step();
  const StepRecord* saved = history.newest_checkpoint();
  if (path.empty() && saved != nullptr) {
    path = saved->checkpoint();
    step = saved->step();
  }
  if (path.empty()) return "";
  return "\nCheckpoint: " + Printable(path) + " (step " + FormatCount(step) + ")\n";
}

}  // namespace

std::string RunMemoryTable(const Job& job, const StepRecord& record,
                           const std::optional<Comparison>& comparison) {
  const std::string recipe = RecipeText(job.spec()), head = Upper(recipe);
  std::vector<MemoryColumn> columns;
  if (recipe != "bf16" && record.memory_planned_bf16_size() > 0) {
    columns.push_back({"BF16 PLANNED", ToKindMap(record.memory_planned_bf16())});
  }
  if (comparison.has_value()) {
    columns.push_back(
        {Upper(comparison->recipe) + " MEASURED", ToKindMap(comparison->record.memory())});
  }
  const int against = static_cast<int>(columns.size()) - 1;
  columns.push_back({head + " PLANNED", ToKindMap(record.memory_planned())});
  columns.push_back({head + " MEASURED", ToKindMap(record.memory())});
  const int of = static_cast<int>(columns.size()) - (comparison.has_value() ? 1 : 2);
  return MemoryTable(columns, {.saved_of = of, .saved_against = against});
}

std::string RunSummary(const Job& job, const RunHistory& history,
                       const std::optional<Comparison>& comparison, const Terminal& terminal) {
  constexpr int kWidestPlot = 78;
  std::string text = DrawPlot(history.Losses(), "Training loss (nats a token)", "steps",
                              {.columns = std::min(terminal.columns, kWidestPlot),
                               .rows = 12,
                               .charset = terminal.charset});
  if (!text.empty()) text += "\n";
  text += ValidationText(history) + SpeedText(history);
  const StepRecord* memory = history.newest_memory();
  if (memory != nullptr) {
    text += "\nMemory of rank 0 by kind\n" + RunMemoryTable(job, *memory, comparison);
  }
  return text + CheckpointText(job, history);
}

}  // namespace coat
