// Ending a rank for good.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "configs/base/status.h"

namespace coat {

// Processes of a session, from /proc, in ascending order.
std::vector<pid_t> SessionProcesses(pid_t session);

// SIGKILL to the rank and to whatever else it started in its session; its small parent stays and
// writes exit.json. Once that is written the parent is killed too, in case it hangs on its way out.
// kNotFound when the rank is not alive.
Status KillRank(const std::string& rank_dir);

}  // namespace coat
