#include "worker/trainer/gang.h"

#include <signal.h>

#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::RankExit;
using coatrack::v1::Reason;

bool Failed(const RankExit& exit) {
  return exit.reason() != Reason::REASON_COMPLETED && exit.reason() != Reason::REASON_STOPPED;
}

RankExit Lost(const std::string& dir) {
  RankExit exit;
  exit.set_exit_status(-1);
  exit.set_reason(Reason::REASON_WORKER_LOST);
  exit.set_message("the process above the rank was killed; no exit.json in " + dir);
  return exit;
}

}  // namespace

Status Gang::Start(const std::string& state_dir, const coatrack::v1::RankLaunch& launch,
                   const coatrack::v1::JobSpec& spec, const std::string& trainer_path) {
  const std::string dir = RankDir(state_dir, launch.job_id(), launch.attempt(), launch.rank());
  RETURN_IF_ERROR(WriteLaunch(dir, launch, spec));
  RETURN_IF_ERROR(SpawnRank(dir, trainer_path));
  ranks_.push_back({dir, std::nullopt, false});
  return Status();
}

bool Gang::Poll() {
  bool all_ended = true;
  bool failed = false;
  for (Rank& rank : ranks_) {
    if (!rank.exit && !RankIsAlive(rank.dir)) {
      // The exit file is in place before the lock goes.
      const Result<RankExit> exit = ReadExit(rank.dir);
      rank.exit = exit.ok() ? *exit : Lost(rank.dir);
    }
    all_ended &= rank.exit.has_value();
    failed |= rank.exit.has_value() && Failed(*rank.exit);
  }
  if (!failed) return all_ended;
  for (Rank& rank : ranks_) {
    if (rank.exit || rank.killed_here) continue;
    rank.killed_here = SignalRank(rank.dir, SIGKILL).ok();
  }
  return all_ended;
}

void Gang::Signal(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.exit) SignalRank(rank.dir, signal);
  }
}

Gang::End Gang::Verdict() const {
  const auto weight = [](const Rank& rank) {
    if (!rank.exit || !Failed(*rank.exit)) return 0;
    if (rank.killed_here) return 1;
    return rank.exit->reason() == Reason::REASON_PEER_FAILED ? 2 : 3;
  };
  size_t worst = 0;
  for (size_t r = 1; r < ranks_.size(); ++r) {
    if (weight(ranks_[r]) > weight(ranks_[worst])) worst = r;
  }
  return {static_cast<int>(worst), ranks_[worst].exit.value_or(Lost(ranks_[worst].dir))};
}

}  // namespace coat
