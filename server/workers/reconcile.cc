#include "server/workers/reconcile.h"

#include <map>
#include <tuple>

namespace coat {
namespace {

using Key = std::tuple<std::string, int32_t, int32_t>;

Key KeyOf(const coatrack::v1::RankKey& key) { return {key.job_id(), key.attempt(), key.rank()}; }

}  // namespace

Reconciled Reconcile(const std::vector<ExpectedRank>& expected,
                     const coatrack::v1::SyncRequest& request) {
  std::map<Key, const coatrack::v1::RankReport*> reports;
  for (const auto& report : request.ranks()) reports[KeyOf(report.key())] = &report;

  Reconciled result;
  for (const ExpectedRank& rank : expected) {
    const auto found = reports.find(Key{rank.job, rank.attempt, rank.rank});
    const bool listed = rank.unlisted_revision == 0;
    if (found == reports.end()) {
      if (!listed && request.applied_revision() >= rank.unlisted_revision) {
        result.findings.push_back({rank, FindingKind::kGone, nullptr});
      } else if (listed && rank.seen_running) {
        result.findings.push_back({rank, FindingKind::kLost, nullptr});
      }
      continue;
    }
    const coatrack::v1::RankReport* report = found->second;
    reports.erase(found);
    switch (report->state()) {
      case coatrack::v1::RANK_STATE_RUNNING:
        result.undesired |= !listed;
        result.findings.push_back({rank, FindingKind::kRunning, report});
        break;
      case coatrack::v1::RANK_STATE_EXITED:
        result.findings.push_back({rank, FindingKind::kExited, report});
        break;
      default: result.findings.push_back({rank, FindingKind::kLost, report});
    }
  }
  for (const auto& [key, report] : reports) {
    if (report->state() == coatrack::v1::RANK_STATE_RUNNING) {
      result.undesired = true;
    } else {
      result.refused.push_back(report->key());
    }
  }
  return result;
}

}  // namespace coat
