// What a worker does about the difference between the ranks it should have and those it has.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "coatrack/v1/worker_service.pb.h"

namespace coat {

struct RankId {
  std::string job_id;
  int attempt = 0;
  int rank = 0;
  auto operator<=>(const RankId&) const = default;
};

RankId ToRankId(const coatrack::v1::RankKey& key);
void SetRankKey(const RankId& id, coatrack::v1::RankKey* key);
std::string ToString(const RankId& id);  // "job 3f2a attempt 1 rank 0", for messages

// The ranks a worker has, as Reconcile sees them.
struct ActualRanks {
  std::set<RankId> alive;
  std::set<RankId> ended;      // exited or lost, not yet acknowledged
  std::set<RankId> forgotten;  // acknowledged by the coordinator and removed
};

struct RankActions {
  std::vector<coatrack::v1::DesiredRank> launch;
  std::vector<coatrack::v1::DesiredRank> stop;  // alive, with a stop mode
  std::vector<coatrack::v1::DesiredRank> keep;  // alive, to go on
  std::vector<RankId> kill;                     // alive, not listed
  std::vector<RankId> report_lost;              // to be stopped, but never seen here
  std::vector<RankId> forget;                   // ended and acknowledged
};

// Pure. A rank is launched at most once: never when its id has ended or was forgotten. An
// acknowledgement of a rank that is still alive is ignored.
RankActions Reconcile(const coatrack::v1::SyncResponse& desired, const ActualRanks& actual);

}  // namespace coat
