#include "client/render/progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "configs/base/units.h"

namespace coat {
namespace {

std::vector<std::string> Parts(const Progress& progress) {
  std::vector<std::string> parts;
  parts.push_back(FormatCount(progress.step) + "/" + FormatCount(progress.steps));
  if (progress.loss.has_value()) parts.push_back("loss " + FormatReal(*progress.loss, 4));
  if (progress.tokens_per_second > 0) {
    parts.push_back(FormatRate(progress.tokens_per_second) + " tok/s");
  }
  const double left_s = progress.seconds_per_step *
                        static_cast<double>(std::max<int64_t>(0, progress.steps - progress.step));
  if (progress.seconds_per_step > 0 && left_s < 1e12) {
    const auto left_ms = static_cast<int64_t>(std::ceil(left_s)) * 1000;
    parts.push_back((left_ms == 0 ? "0s" : FormatDurationMs(left_ms)) + " left");
  }
  return parts;
}

std::string Join(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

}  // namespace

std::string ProgressLine(const Progress& progress, const Terminal& terminal) {
  constexpr int kWidestBar = 30, kNarrowestBar = 5;
  const bool utf8 = terminal.charset == Terminal::Charset::kUtf8;
  const std::string text = Join(Parts(progress), "  ");
  // One column stays free: a full line would wrap on some terminals.
  const int bar = std::min(kWidestBar, terminal.columns - 4 - TextWidth(text));
  if (bar < kNarrowestBar) return Fit(text, terminal.columns - 1);
  const double share =
      progress.steps > 0
          ? std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.steps),
                       0.0, 1.0)
          : 0;
  const int full = static_cast<int>(share * bar);
  std::string line = "[";
  for (int i = 0; i < bar; ++i) {
    line += i < full ? (utf8 ? "\xE2\x96\x88" : "#") : (utf8 ? "\xE2\x96\x91" : ".");
  }
  return line + "] " + text;
}

std::string ProgressText(const Progress& progress) { return "step " + Join(Parts(progress), ", "); }

}  // namespace coat
