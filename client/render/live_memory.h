// The memory part of the live view.
#pragma once

#include <string>
#include <vector>

#include "client/render/live_view.h"

namespace coat {

// A bar of the device, then one a kind: filled as measured, hollow up to the plan for bf16. Empty
// until something is measured. Lines are at most `columns` wide.
std::vector<std::string> LiveMemoryLines(const WatchSnapshot& snapshot, int columns,
                                         Terminal::Charset charset);

}  // namespace coat
