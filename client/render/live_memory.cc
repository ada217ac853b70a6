#include "client/render/live_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "client/render/memory_view.h"
#include "configs/base/units.h"

namespace coat {
namespace {

using coatrack::v1::StepRecord;

constexpr int kNameColumns = 14;

std::string Padded(const std::string& text, int columns) {
  return text + std::string(static_cast<size_t>(std::max(0, columns - TextWidth(text))), ' ');
}

std::string RightAligned(const std::string& text, int columns) {
  return std::string(static_cast<size_t>(std::max(0, columns - TextWidth(text))), ' ') + text;
}

// Cells of `bytes` when `most` fill the bar; at least one for what is there.
int Cells(int64_t bytes, int64_t most, int bar) {
  if (bytes <= 0 || most <= 0) return 0;
  const double share = static_cast<double>(bytes) / static_cast<double>(most);
  return std::clamp(static_cast<int>(std::lround(share * bar)), 1, bar);
}

std::string Bar(int full, int hollow, int bar, Terminal::Charset charset) {
  const bool utf8 = charset == Terminal::Charset::kUtf8;
  std::string text = "[";
  for (int i = 0; i < bar; ++i) {
    if (i < full) {
      text += utf8 ? "\xE2\x96\x88" : "#";
    } else if (i < hollow) {
      text += utf8 ? "\xE2\x96\x91" : "-";
    } else {
      text += ' ';
    }
  }
  return text + "]";
}

std::string Percent(int64_t part, int64_t whole) {
  char text[32];
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(text, sizeof text, percent < 10 ? "%.1f %%" : "%.0f %%", percent);
  return text;
}

int64_t BytesOf(const KindMap& map, const std::string& kind) {
  const auto found = map.find(kind);
  return found == map.end() ? 0 : found->second;
}

}  // namespace

std::vector<std::string> LiveMemoryLines(const WatchSnapshot& snapshot, int columns,
                                         Terminal::Charset charset) {
  constexpr int kValueColumns = 11, kNoteColumns = 22, kWidestBar = 50, kNarrowestBar = 4;
  const StepRecord* record = snapshot.history.newest_memory();
  if (record == nullptr) return {};
  const KindMap measured = ToKindMap(record->memory());
  const KindMap bf16 = ToKindMap(record->memory_planned_bf16());
  const bool narrow = columns < kNameColumns + kValueColumns + kNoteColumns + 12;
  const int bar =
      std::clamp(columns - kNameColumns - kValueColumns - (narrow ? 0 : kNoteColumns) - 2,
                 kNarrowestBar, kWidestBar);
  const bool utf8 = charset == Terminal::Charset::kUtf8;
  std::vector<std::string> lines = {std::string("Memory of rank 0 (") +
                                    (utf8 ? "\xE2\x96\x88" : "#") + " measured, " +
                                    (utf8 ? "\xE2\x96\x91" : "-") + " planned for bf16)"};
  const int64_t total = TotalBytes(measured);
  const auto add = [&](const std::string& name, int full, int hollow, int64_t bytes,
                       const std::string& note) {
    lines.push_back(Fit(Padded(name, kNameColumns) + Bar(full, hollow, bar, charset) +
                            RightAligned(FormatBytes(bytes), kValueColumns) + "  " + note,
                        columns));
  };
  if (snapshot.device_bytes > 0) {
    add("device", Cells(total, snapshot.device_bytes, bar), 0, total,
        Percent(total, snapshot.device_bytes) + " of " + FormatBytes(snapshot.device_bytes));
  }
  int64_t most = 0;
  const std::vector<std::string> kinds = KindsOf({measured, bf16});
  for (const std::string& kind : kinds) {
    most = std::max({most, BytesOf(measured, kind), BytesOf(bf16, kind)});
  }
  for (const std::string& kind : kinds) {
    const int64_t bytes = BytesOf(measured, kind), against = BytesOf(bf16, kind);
    const bool compared = against > 0 && bytes != against;
    add(kind, Cells(bytes, most, bar), Cells(against, most, bar), bytes,
        compared ? DifferenceText(bytes, against) + " to bf16" : "");
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

}  // namespace coat
