#include "worker/supervisor/session_kill.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "worker/trainer/rank_protocol.h"

namespace coat {

std::vector<pid_t> SessionProcesses(pid_t session) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (fault != std::errc() || end != name.data() + name.size()) continue;
    if (getsid(pid) == session) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Status KillRank(const std::string& rank_dir) {
  ASSIGN_OR_RETURN(const RankPids pids, ReadRankPids(rank_dir));
  const pid_t session = getsid(pids.parent);
  const Status status = SignalRank(rank_dir, SIGKILL);
  // Never the daemon's own session: a rank has one of its own (rank_protocol.h).
  if (session <= 0 || session == getsid(0)) return status;
  // With exit.json in place the parent has nothing left to do, but may hang on its way out.
  const bool ended = ReadExit(rank_dir).ok();
  for (const pid_t pid : SessionProcesses(session)) {
    if (pid != pids.rank && (pid != pids.parent || ended)) kill(pid, SIGKILL);
  }
  return status;
}

}  // namespace coat
