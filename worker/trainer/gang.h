// The ranks of one attempt, all on this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/base/status.h"

namespace coat {

// Not thread-safe.
class Gang {
 public:
  Status Start(const std::string& state_dir, const coatrack::v1::RankLaunch& launch,
               const coatrack::v1::JobSpec& spec, const std::string& trainer_path);
  const std::string& dir(int rank) const { return ranks_[static_cast<size_t>(rank)].dir; }

  // Looks at every rank; true once all have ended. When one fails the others are killed: they
  // could only wait for it.
  bool Poll();
  void Signal(int signal);

  // After the end: the exit that explains the others, and its rank. A rank that only lost its
  // peer, or was killed here, explains nothing as long as another one failed.
  struct End {
    int rank = 0;
    coatrack::v1::RankExit exit;
  };
  End Verdict() const;

 private:
  struct Rank {
    std::string dir;
    std::optional<coatrack::v1::RankExit> exit;
    bool killed_here = false;
  };
  std::vector<Rank> ranks_;
};

}  // namespace coat
