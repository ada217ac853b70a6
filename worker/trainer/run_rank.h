// One rank from launch.json to its result.
#pragma once

#include <string>

namespace coat {

// Trains as `dir`/launch.json says and leaves result.json (rank_parent.h). Catches every Error of
// the engine. Returns the exit status: 0 when completed or stopped as asked, else 1. SIGTERM must
// be blocked.
int RunRank(const std::string& dir);

}  // namespace coat
