#include <algorithm>

#include "server/loops/coordinator.h"
#include "server/loops/section.h"

namespace coat {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;

bool Matches(const coatrack::v1::ListRequest& request, coatrack::v1::JobState state,
             const std::map<std::string, std::string>& labels) {
  if (request.active_only() && IsTerminal(state)) return false;
  if (request.states_size() > 0 && std::find(request.states().begin(), request.states().end(),
                                             state) == request.states().end()) {
    return false;
  }
  return std::all_of(request.labels().begin(), request.labels().end(), [&](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

}  // namespace

Result<JobTable::Known> Coordinator::Resolve(const std::string& reference) {
  Section section(this);
  return jobs_.Resolve(reference);
}

bool Coordinator::Settled(int64_t sequence) {
  Section section(this);
  return jobs_.Live(sequence) == nullptr;
}

void Coordinator::GetJob(int64_t sequence, Done<coatrack::v1::Job> done) {
  {
    Section section(this);
    if (const JobRecord* record = jobs_.Live(sequence)) {
      return Later([done, job = record->row.job()] { done(job); });
    }
  }
  parts_.store->ReadJob(sequence, [done](Result<coatrack::v1::JobRow> row) {
    if (!row.ok()) return done(row.status());
    done(std::move(*row->mutable_job()));
  });
}

void Coordinator::ListJobs(const coatrack::v1::ListRequest& request,
                           Done<coatrack::v1::ListResponse> done) {
  const int page =
      request.page_size() <= 0 ? kDefaultPage : std::min(request.page_size(), kMaxPage);
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty()) {
    char* end = nullptr;
    before = std::strtoll(request.page_token().c_str(), &end, 10);
    if (*end != '\0' || before <= 0) {
      return done(Status(Code::kInvalidArgument, "page_token: not one that this server gave: '" +
                                                     request.page_token() + "'"));
    }
  }
  std::map<int64_t, coatrack::v1::Job> live;
  std::vector<int64_t> finished;
  coatrack::v1::ListResponse response;
  {
    Section section(this);
    auto next_live = std::make_reverse_iterator(jobs_.live().lower_bound(before));
    auto next_done = std::make_reverse_iterator(jobs_.finished().lower_bound(before));
    const auto end_live = jobs_.live().rend();
    const auto end_done = jobs_.finished().rend();
    int64_t last = 0;
    while (next_live != end_live || next_done != end_done) {
      if (static_cast<int>(live.size() + finished.size()) == page) {
        response.set_next_page_token(std::to_string(last));
        break;
      }
      const bool take_live =
          next_done == end_done || (next_live != end_live && next_live->first > next_done->first);
      if (take_live) {
        const auto& [sequence, record] = *next_live++;
        if (record.committed_version == 0) continue;
        const auto& labels = record.row.job().spec().labels();
        if (!Matches(request, record.state(), {labels.begin(), labels.end()})) continue;
        live[sequence] = record.row.job();
        last = sequence;
      } else {
        const auto& [sequence, job] = *next_done++;
        if (!Matches(request, job.state, job.labels)) continue;
        finished.push_back(sequence);
        last = sequence;
      }
    }
  }
  parts_.store->ReadJobs(std::move(finished),
                         [done, live = std::move(live), response = std::move(response)](
                             Result<std::vector<coatrack::v1::JobRow>> rows) mutable {
                           if (!rows.ok()) return done(rows.status());
                           for (coatrack::v1::JobRow& row : *rows) {
                             live.emplace(row.sequence(), std::move(*row.mutable_job()));
                           }
                           for (auto it = live.rbegin(); it != live.rend(); ++it) {
                             *response.add_jobs() = std::move(it->second);
                           }
                           done(std::move(response));
                         });
}

void Coordinator::ReadEvents(int64_t sequence, int64_t after, int32_t limit,
                             Done<std::vector<coatrack::v1::JobEvent>> done) {
  parts_.store->ReadEvents(sequence, after, limit, std::move(done));
}

std::vector<coatrack::v1::Worker> Coordinator::Workers() {
  Section section(this);
  const int64_t now_ms = Now().steady_ms;
  const auto held = HeldDevices();
  std::vector<coatrack::v1::Worker> workers;
  for (const auto& [name, record] : registry_.workers()) {
    coatrack::v1::Worker& worker = workers.emplace_back();
    worker.set_name(name);
    worker.set_incarnation(record.incarnation);
    worker.set_state(record.state);
    worker.set_message(record.message);
    worker.set_address(record.address);
    worker.set_metrics_address(record.metrics_address);
    worker.set_version(record.version);
    worker.set_heartbeat_age_seconds(static_cast<double>(now_ms - record.heard_ms) / 1000.0);
    for (const auto& [key, value] : record.labels) (*worker.mutable_labels())[key] = value;
    for (const coatrack::v1::StorageRoot& root : record.roots) *worker.add_roots() = root;
    for (const coatrack::v1::Device& device : record.devices) {
      coatrack::v1::Device* shown = worker.add_devices();
      *shown = device;
      const auto holder = held.find({name, device.id()});
      shown->set_job_id(holder == held.end() ? "" : holder->second);
    }
  }
  return workers;
}

std::vector<coatrack::v1::Checkpoint> Coordinator::Checkpoints(const std::string& job) {
  Section section(this);
  std::vector<coatrack::v1::Checkpoint> list = checkpoints_.List("", job);
  std::set<std::string> pinned;
  for (const int64_t sequence : holding_) {
    const JobRecord* record = jobs_.Live(sequence);
    if (record->id() == job) pinned.insert(record->row.attempt().resume());
    if (record->effective.init_from().job() == job) {
      pinned.insert(record->row.attempt().init_checkpoint());
    }
  }
  for (coatrack::v1::Checkpoint& checkpoint : list) {
    checkpoint.set_pinned(pinned.contains(DirectoryName(checkpoint.path())));
  }
  return list;
}

coatrack::v1::GetServerInfoResponse Coordinator::Info() {
  Section section(this);
  coatrack::v1::GetServerInfoResponse info;
  info.set_epoch(epoch_);
  info.set_cluster_id(cluster_id_);
  info.set_scheduling(refusal_.empty());
  info.set_message(refusal_.empty() ? storage_error_ : refusal_);
  info.set_reconciling(Reconciling(Now().steady_ms));
  return info;
}

uint64_t Coordinator::TopicVersion(const std::string& topic) {
  Section section(this);
  return waiters_.Version(topic);
}

void Coordinator::Wait(const std::string& topic, uint64_t seen, int64_t max_wait_ms,
                       Callback call) {
  Section section(this);
  if (stopped_) return Later(std::move(call));
  waiters_.Wait(topic, seen, Now().steady_ms + max_wait_ms, std::move(call), &ready_);
}

void Coordinator::CountRpc(const std::string& method, const std::string& code, double seconds) {
  Section section(this);
  RpcCount& count = counters_.rpcs[{method, code}];
  ++count.calls;
  count.seconds += seconds;
}

ActiveJob Coordinator::ShownOf(const JobRecord& record) {
  const coatrack::v1::Job& job = record.row.job();
  ActiveJob shown{job.id(),     job.spec().name(),        job.state(),           job.step(),
                  job.steps(),  record.checkpoints_total, job.checkpoint_step(), job.restarts(),
                  record.latest};
  shown.latest.clear_memory();
  shown.latest.clear_memory_planned();
  shown.latest.clear_memory_planned_bf16();
  shown.latest.clear_health();
  return shown;
}

void Coordinator::ForgetEnded(int64_t now_ms) {
  while (!ended_.empty() &&
         (now_ms - ended_.front().first >= kEndedSeriesMs || ended_.size() > kMaxJobSeries)) {
    ended_.pop_front();
  }
}

ServerView Coordinator::View() {
  Section section(this);
  const int64_t now_ms = Now().steady_ms;
  ServerView view;
  view.scheduling = refusal_.empty();
  view.jobs = jobs_.finished_by_state();
  for (const auto& [sequence, record] : jobs_.live()) {
    ++view.jobs[record.state()];
    if (record.state() == coatrack::v1::JOB_STATE_PENDING) {
      ++view.pending[record.row.job().pending_reason()];
    }
  }
  for (const auto& [name, worker] : registry_.workers()) {
    ++view.workers[worker.state];
    view.heartbeat_age_seconds[name] = static_cast<double>(now_ms - worker.heard_ms) / 1000.0;
  }
  for (const int64_t sequence : holding_) {
    if (view.active.size() == kMaxJobSeries) break;
    view.active.push_back(ShownOf(*jobs_.Live(sequence)));
  }
  view.active_omitted = static_cast<int64_t>(holding_.size() - view.active.size());
  ForgetEnded(now_ms);
  for (auto ended = ended_.rbegin(); ended != ended_.rend(); ++ended) {
    if (view.active.size() == kMaxJobSeries) break;
    view.active.push_back(ended->second);
  }
  view.commits = parts_.store->Stats();
  view.counters = counters_;
  return view;
}

}  // namespace coat
