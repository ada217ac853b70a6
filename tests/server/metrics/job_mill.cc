#include "tests/server/metrics/job_mill.h"

#include <malloc.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>

#include "server/metrics/families.h"

namespace coat::testing {
namespace {

constexpr int kWorkers = 4;
constexpr int kDevices = 16;
constexpr int kBatch = kWorkers * kDevices;
constexpr int kMeasurements = 5;
constexpr int kRetireEvery = 8;  // rounds

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

std::string Numbered(const char* format, int64_t number) {
  char text[64];
  std::snprintf(text, sizeof text, format, static_cast<long long>(number));
  return text;
}

FinishedJob FinishedLine(int64_t sequence, int64_t wall_ms) {
  FinishedJob job;
  job.sequence = sequence;
  job.id = Numbered("z%09lld", sequence);
  job.name = "short";
  job.request_id = Numbered("00000000-0000-4000-8000-%012lld", sequence);
  job.request_hash = std::string(64, 'f');
  job.state = coatrack::v1::JOB_STATE_SUCCEEDED;
  job.finished_ms = wall_ms;
  return job;
}

}  // namespace

bool ForgetfulStore::Pump() {
  std::deque<StoreDone> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(waiting_);
  }
  for (const StoreDone& done : ready) done({});
  return !ready.empty();
}

void ForgetfulStore::Commit(JobChange /*change*/, StoreDone done) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(done));
}

void ForgetfulStore::Remove(std::vector<int64_t> /*sequences*/, StoreDone done) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(done));
}

void ForgetfulStore::ReadJob(int64_t /*sequence*/,
                             std::function<void(Result<coatrack::v1::JobRow>)> done) {
  done(Status(Code::kNotFound, "nothing is kept"));
}

void ForgetfulStore::ReadJobs(std::vector<int64_t> /*sequences*/,
                              std::function<void(Result<std::vector<coatrack::v1::JobRow>>)> done) {
  done(std::vector<coatrack::v1::JobRow>());
}

void ForgetfulStore::ReadEvents(
    int64_t /*sequence*/, int64_t /*after*/, int32_t /*limit*/,
    std::function<void(Result<std::vector<coatrack::v1::JobEvent>>)> done) {
  done(std::vector<coatrack::v1::JobEvent>());
}

JobMill::JobMill(int32_t retained, int finished) {
  journal_ = std::make_unique<Journal>(dir_.path().string(), JournalLimits{});
  CoordinatorOptions options;
  options.retained_jobs = retained;
  LoadedState state;
  state.epoch = 1;
  state.last_sequence = finished;
  for (int i = 1; i <= finished; ++i) state.finished.push_back(FinishedLine(i, clock_.WallMs()));
  CoordinatorParts parts;
  parts.clock = &clock_;
  parts.store = &store_;
  parts.journal = journal_.get();
  parts.new_job_id = [this] { return Numbered("j%09lld", ++ids_); };
  parts.log = [](const std::string&) {};
  coordinator_ = std::make_unique<Coordinator>(options, std::move(parts), std::move(state));
  for (int i = 0; i < kWorkers; ++i) {
    workers_.push_back(std::make_unique<FakeWorker>("w" + std::to_string(i), kDevices, "uuid",
                                                    std::map<std::string, std::string>()));
  }
  for (int i = 0; i < 3; ++i) SyncAll();
}

JobMill::~JobMill() { journal_.reset(); }

void JobMill::Submit(int jobs) {
  for (int i = 0; i < jobs; ++i) {
    Coordinator::Submission submission;
    coatrack::v1::JobSpec& spec = submission.submitted;
    spec.set_name("short");
    spec.mutable_model()->set_preset("llama-tiny");
    spec.mutable_data()->add_text("corpus/*.txt");
    spec.mutable_train()->set_steps(1);
    spec.mutable_resources()->set_ranks(1);
    spec.mutable_resources()->set_device(coatrack::v1::DEVICE_KIND_CPU);
    spec.mutable_checkpoint()->set_root("default");
    submission.effective = spec;
    submission.request_id = Numbered("10000000-0000-4000-8000-%012lld", ids_ + i);
    submission.request_hash = std::string(64, 'e');
    submission.cpu_bytes = 1 << 20;
    coordinator_->Submit(std::move(submission), [](const Result<coatrack::v1::SubmitResponse>&) {});
  }
}

void JobMill::SyncAll() {
  for (const auto& worker : workers_) {
    coordinator_->Sync(worker->Report(),
                       [worker = worker.get()](const Result<coatrack::v1::SyncResponse>& response) {
                         if (response.ok()) worker->Apply(*response);
                       });
  }
  store_.Pump();
}

// A step of every running rank, and its end.
void JobMill::PushRecords() {
  for (const auto& worker : workers_) {
    const coatrack::v1::SyncRequest report = worker->Report();
    for (const coatrack::v1::RankReport& rank : report.ranks()) {
      if (rank.state() != coatrack::v1::RANK_STATE_RUNNING) continue;
      coatrack::v1::PushRecordsRequest request;
      *request.mutable_key() = rank.key();
      request.set_worker(report.worker());
      request.set_incarnation(report.incarnation());
      request.set_next_offset(100);
      coatrack::v1::StepRecord* record = request.add_records();
      record->set_step(1);
      record->set_phase(coatrack::v1::PHASE_STEP);
      record->set_loss(2.5);
      record->set_step_seconds(0.25);
      record->set_tokens_total(1024);
      ++pushes_;
      coordinator_->PushRecords(
          request, [this](const Result<coatrack::v1::PushRecordsResponse>&) { --pushes_; });
      worker->Exit({rank.key().job_id(), rank.key().attempt(), rank.key().rank()},
                   coatrack::v1::REASON_COMPLETED);
    }
  }
}

void JobMill::Round(int submit) {
  Submit(submit);
  store_.Pump();
  coordinator_->Dispatch();
  store_.Pump();
  SyncAll();  // launches
  SyncAll();  // reports them running
  PushRecords();
  SyncAll();  // reports the ends
  SyncAll();  // those are acknowledged
  clock_.now_ms += 100;
  coordinator_->Tick();
}

double JobMill::Run(int jobs) {
  const double start = ProcessorSeconds();
  for (int left = jobs, round = 1; left > 0; left -= kBatch, ++round) {
    Round(std::min(left, kBatch));
    if (round % kRetireEvery == 0) coordinator_->Retire();
  }
  const auto running = [this] {
    const ServerView view = coordinator_->View();
    return std::any_of(view.jobs.begin(), view.jobs.end(), [](const auto& entry) {
      return !IsTerminal(entry.first) && entry.second > 0;
    });
  };
  for (int i = 0; i < 10 && running(); ++i) Round(0);
  if (running()) throw std::runtime_error("jobs do not end");
  WaitUntil([this] { return pushes_ == 0; });
  coordinator_->Retire();
  store_.Pump();
  return (ProcessorSeconds() - start) / jobs;
}

Footprint JobMill::Measure() {
  Footprint footprint;
  footprint.scrape_seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMeasurements; ++i) {
    const double start = ProcessorSeconds();
    auto families = FleetFamilies(coordinator_->View());
    auto jobs = JobFamilies(coordinator_->View());
    families.insert(families.end(), jobs.begin(), jobs.end());
    const std::string text = prometheus::TextSerializer().Serialize(families);
    footprint.scrape_seconds = std::min(footprint.scrape_seconds, ProcessorSeconds() - start);
    footprint.series = 0;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      footprint.series += text[at] == '#' ? 0 : 1;
    }
  }
  footprint.heap_bytes = HeapBytes();
  return footprint;
}

}  // namespace coat::testing
