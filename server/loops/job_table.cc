#include "server/loops/job_table.h"

#include <utility>

namespace coat {
namespace {

constexpr size_t kMinPrefix = 4;

}  // namespace

void JobTable::Index(const FinishedJob& job) {
  by_id_[job.id] = job.sequence;
  int64_t& newest = newest_by_name_[job.name];
  newest = std::max(newest, job.sequence);
  if (!job.request_id.empty()) {
    by_request_[job.request_id] = {job.sequence, job.id, job.request_hash};
  }
}

JobRecord* JobTable::Add(JobRecord record) {
  const FinishedJob summary = Summarize(record.row);
  Index(summary);
  return &live_.insert_or_assign(summary.sequence, std::move(record)).first->second;
}

void JobTable::AddFinished(FinishedJob job) {
  Index(job);
  Keep(std::move(job));
}

void JobTable::Keep(FinishedJob job) {
  const int64_t sequence = job.sequence;
  const auto [place, fresh] = finished_.try_emplace(sequence);
  if (!fresh) --finished_by_state_[place->second.state];
  ++finished_by_state_[job.state];
  place->second = std::move(job);
}

void JobTable::Finish(int64_t sequence) {
  const auto found = live_.find(sequence);
  if (found == live_.end()) return;
  Keep(Summarize(found->second.row));
  live_.erase(found);
}

void JobTable::Remove(int64_t sequence) {
  FinishedJob job;
  if (const auto live = live_.find(sequence); live != live_.end()) {
    job = Summarize(live->second.row);
    live_.erase(live);
  } else if (const auto done = finished_.find(sequence); done != finished_.end()) {
    job = std::move(done->second);
    --finished_by_state_[job.state];
    finished_.erase(done);
  } else {
    return;
  }
  by_id_.erase(job.id);
  by_request_.erase(job.request_id);
  const auto name = newest_by_name_.find(job.name);
  if (name != newest_by_name_.end() && name->second == sequence) newest_by_name_.erase(name);
}

Result<JobTable::Known> JobTable::Resolve(const std::string& reference) const {
  if (reference.empty()) return Status(Code::kInvalidArgument, "job: an id or a name is required");
  const auto known = [](const auto& entry) { return Known{entry->second, entry->first, {}}; };
  const auto id = by_id_.find(reference);
  if (id != by_id_.end()) return known(id);
  const auto name = newest_by_name_.find(reference);
  if (name != newest_by_name_.end()) {
    const JobRecord* live = Live(name->second);
    return Known{name->second, live != nullptr ? live->id() : finished_.at(name->second).id, {}};
  }
  if (reference.size() >= kMinPrefix) {
    const auto first = by_id_.lower_bound(reference);
    if (first != by_id_.end() && first->first.starts_with(reference)) {
      const auto second = std::next(first);
      if (second != by_id_.end() && second->first.starts_with(reference)) {
        return Status(Code::kInvalidArgument, "job '" + reference + "' is the beginning of " +
                                                  first->first + " and " + second->first +
                                                  ", among others; write more of the id");
      }
      return known(first);
    }
  }
  return Status(Code::kNotFound, "no job has the id or name '" + reference +
                                     "'; `coat list --all` shows those that are kept");
}

const JobTable::Known* JobTable::FindRequest(const std::string& request_id) const {
  const auto found = by_request_.find(request_id);
  return found == by_request_.end() ? nullptr : &found->second;
}

JobRecord* JobTable::Live(int64_t sequence) {
  const auto found = live_.find(sequence);
  return found == live_.end() ? nullptr : &found->second;
}
const JobRecord* JobTable::Live(int64_t sequence) const {
  const auto found = live_.find(sequence);
  return found == live_.end() ? nullptr : &found->second;
}
JobRecord* JobTable::LiveById(const std::string& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : Live(found->second);
}
const JobRecord* JobTable::LiveById(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : Live(found->second);
}
const FinishedJob* JobTable::Finished(int64_t sequence) const {
  const auto found = finished_.find(sequence);
  return found == finished_.end() ? nullptr : &found->second;
}

}  // namespace coat
