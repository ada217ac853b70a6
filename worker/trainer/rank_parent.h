// The small process above each rank: holds the lock, waits, says how the rank ended.
#pragma once

#include <functional>
#include <string>

#include "coatrack/v1/events.pb.h"
#include "configs/base/status.h"

namespace coat {

inline constexpr int kInheritedLockFd = 3;            // where SpawnRank leaves the lock
inline constexpr char kResultFile[] = "result.json";  // RankExit as the rank itself sees it

// Descriptor that holds the exclusive lock of dir/alive. kFailedPrecondition when another process
// holds it or the rank has ended.
Result<int> LockAlive(const std::string& dir);

// Forks `rank_main` and waits for it, trimming its streams meanwhile; then writes exit.json from
// the wait status, the kernel's out-of-memory counters and the rank's own result. The child dies
// with this process. It starts with SIGTERM blocked, so that none is lost before it is handled.
// Must be called before any thread is started. Returns the exit status for this process: that of
// the rank, or 128 + signal. kFailedPrecondition as LockAlive.
Result<int> RunRankParent(const std::string& dir, const std::function<int()>& rank_main);

// What the rank itself says about its end, for the parent.
Status WriteResult(const std::string& dir, const coatrack::v1::RankExit& result);
Result<coatrack::v1::RankExit> ReadResult(const std::string& dir);

// Reason of an end by signal. SIGKILL together with a moved out-of-memory counter: HOST_OOM.
coatrack::v1::Reason ReasonOfSignal(int signal, bool host_oom);

}  // namespace coat
