#include "worker/supervisor/reconcile.h"

namespace coat {

RankId ToRankId(const coatrack::v1::RankKey& key) {
  return {key.job_id(), key.attempt(), key.rank()};
}

void SetRankKey(const RankId& id, coatrack::v1::RankKey* key) {
  key->set_job_id(id.job_id);
  key->set_attempt(id.attempt);
  key->set_rank(id.rank);
}

std::string ToString(const RankId& id) {
  return "job " + id.job_id + " attempt " + std::to_string(id.attempt) + " rank " +
         std::to_string(id.rank);
}

RankActions Reconcile(const coatrack::v1::SyncResponse& desired, const ActualRanks& actual) {
  RankActions actions;
  for (const auto& key : desired.acknowledged()) {
    const RankId id = ToRankId(key);
    if (actual.ended.count(id) != 0) actions.forget.push_back(id);
  }
  std::set<RankId> listed;
  for (const auto& rank : desired.ranks()) {
    const RankId id = ToRankId(rank.key());
    if (!listed.insert(id).second) continue;
    const bool stop = rank.stop() != coatrack::v1::STOP_MODE_UNSPECIFIED;
    if (actual.alive.count(id) != 0) {
      (stop ? actions.stop : actions.keep).push_back(rank);
    } else if (actual.ended.count(id) == 0 && actual.forgotten.count(id) == 0) {
      if (stop) {
        actions.report_lost.push_back(id);
      } else {
        actions.launch.push_back(rank);
      }
    }
  }
  for (const RankId& id : actual.alive) {
    if (listed.count(id) == 0) actions.kill.push_back(id);
  }
  return actions;
}

}  // namespace coat
