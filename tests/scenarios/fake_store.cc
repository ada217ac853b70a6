#include "tests/scenarios/fake_store.h"

#include "server/jobs/reason.h"
#include "server/jobs/transition.h"

namespace coat {

bool FakeStore::Pump() {
  const bool any = !waiting_.empty();
  while (!waiting_.empty()) {
    auto [change, done] = std::move(waiting_.front());
    waiting_.pop_front();
    if (full_) {
      done(Status(Code::kResourceExhausted, "the disk is full"));
      continue;
    }
    Apply(change);
    done({});
  }
  return any;
}

void FakeStore::Apply(const JobChange& change) {
  rows_[change.row.sequence()] = change.row;
  for (const coatrack::v1::JobEvent& event : change.events) {
    const bool fresh = events_[change.row.sequence()].emplace(event.sequence(), event).second;
    if (!fresh) continue;
    std::string text = change.row.job().id() + " #" + std::to_string(event.sequence()) + " " +
                       StateName(event.state());
    if (event.reason() != coatrack::v1::REASON_UNSPECIFIED) {
      text += std::string(" ") + ReasonName(event.reason());
    }
    print_(text + ": " + event.message());
  }
}

LoadedState FakeStore::Crash() {
  waiting_.clear();
  LoadedState state;
  state.epoch = ++epoch_;
  for (const auto& [sequence, row] : rows_) {
    state.last_sequence = sequence;
    if (IsTerminal(row.job().state())) {
      state.finished.push_back(Summarize(row));
    } else {
      state.live.push_back(row);
    }
  }
  return state;
}

void FakeStore::Commit(JobChange change, StoreDone done) {
  waiting_.emplace_back(std::move(change), std::move(done));
}

void FakeStore::Remove(std::vector<int64_t> sequences, StoreDone done) {
  for (const int64_t sequence : sequences) {
    rows_.erase(sequence);
    events_.erase(sequence);
  }
  done({});
}

void FakeStore::ReadJob(int64_t sequence, std::function<void(Result<coatrack::v1::JobRow>)> done) {
  const auto found = rows_.find(sequence);
  if (found == rows_.end()) return done(Status(Code::kNotFound, "no such row"));
  done(found->second);
}

void FakeStore::ReadJobs(std::vector<int64_t> sequences,
                         std::function<void(Result<std::vector<coatrack::v1::JobRow>>)> done) {
  std::vector<coatrack::v1::JobRow> rows;
  for (const int64_t sequence : sequences) {
    if (rows_.contains(sequence)) rows.push_back(rows_[sequence]);
  }
  done(std::move(rows));
}

void FakeStore::ReadEvents(int64_t sequence, int64_t after, int32_t limit,
                           std::function<void(Result<std::vector<coatrack::v1::JobEvent>>)> done) {
  std::vector<coatrack::v1::JobEvent> events;
  for (const auto& [number, event] : events_[sequence]) {
    if (number > after && static_cast<int32_t>(events.size()) < limit) events.push_back(event);
  }
  done(std::move(events));
}

}  // namespace coat
