// The whole screen of `coat watch`: a pure function from what is known to lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/render/history.h"
#include "client/render/terminal.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

struct WatchSnapshot {
  coatrack::v1::Job job;
  RunHistory history;
  std::vector<coatrack::v1::JobEvent> events;  // oldest first
  int64_t device_bytes = 0;                    // of rank 0's device; 0: unknown
  bool following = true;                       // false: the last picture
  std::string note;                            // of the connection; may be empty
  int64_t now_s = 0;                           // since 1970
};

// State and reason, progress, loss curve with validation points, memory by kind against the
// device and the plan for bf16, FP8 health, events. At most `size.rows` lines, each narrower than
// `size.columns` (escape sequences not counted); what does not fit is left out, the least needed
// first. `charset` picks the characters; colours are ANSI and only with `Paint::kColour`.
enum class Paint : uint8_t { kPlain, kColour };
std::vector<std::string> LiveLines(const WatchSnapshot& snapshot, const ScreenSize& size,
                                   Terminal::Charset charset, Paint paint);

}  // namespace coat
