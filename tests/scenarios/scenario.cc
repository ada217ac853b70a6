#include "tests/scenarios/scenario.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "server/jobs/reason.h"

namespace coat {
namespace {

constexpr int64_t kTickMs = 500;
constexpr int kMaxRounds = 40;

std::string Value(const std::map<std::string, std::string>& options, const std::string& name,
                  const std::string& otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : found->second;
}

std::string StateWord(coatrack::v1::WorkerState state) {
  return coatrack::v1::WorkerState_Name(state).substr(std::string("WORKER_STATE_").size());
}

}  // namespace

Scenario::Scenario() : store_([this](const std::string& line) { Print(line); }) {
  journal_ = std::make_unique<Journal>(dir_.path().string(), JournalLimits{});
  StartCoordinator();
}

Scenario::~Scenario() { journal_.reset(); }

void Scenario::StartCoordinator() {
  CoordinatorOptions options;
  options.stall.floor_ms = 60'000;
  CoordinatorParts parts;
  parts.clock = &clock_;
  parts.store = &store_;
  parts.journal = journal_.get();
  parts.new_job_id = [this] { return "job-" + std::to_string(++jobs_); };
  parts.log = [this](const std::string& line) { Print("log: " + line); };
  coordinator_.reset();
  coordinator_ = std::make_unique<Coordinator>(options, std::move(parts), store_.Crash());
}

void Scenario::Submit(const std::string& name, const Options& options) {
  coatrack::v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->set_preset("llama-tiny");
  spec.mutable_data()->add_text("corpus/*.txt");
  spec.mutable_train()->set_steps(100);
  spec.mutable_optimizer()->set_lr(1e-3);
  spec.set_priority(std::stoi(Value(options, "priority", "0")));
  spec.set_max_restarts(std::stoi(Value(options, "restarts", "3")));
  spec.mutable_resources()->set_ranks(std::stoi(Value(options, "ranks", "1")));
  spec.mutable_resources()->set_device(coatrack::v1::DEVICE_KIND_CPU);
  spec.mutable_checkpoint()->set_root(Value(options, "root", "default"));
  const int limit = std::stoi(Value(options, "limit", "0"));
  if (limit > 0) spec.mutable_resources()->mutable_time_limit()->set_seconds(limit);
  Coordinator::Submission submission;
  submission.submitted = submission.effective = spec;
  submission.request_id = Value(options, "request", "");
  submission.request_hash = name;
  submission.cpu_bytes = 1 << 20;
  coordinator_->Submit(std::move(submission), [this](Result<coatrack::v1::SubmitResponse> result) {
    Print(result.ok() ? "answer: " + result->job().id() +
                            (result->already_existed() ? " (existed already)" : "")
                      : "answer: " + result.status().ToString());
  });
}

void Scenario::Stop(const std::string& job, bool now) {
  coordinator_->Stop(job, now, "", [this](Result<coatrack::v1::Job> result) {
    Print(result.ok() ? std::string("answer: ") + StateName(result->state())
                      : "answer: " + result.status().ToString());
  });
}

void Scenario::SyncAll() {
  for (auto& [name, worker] : workers_) {
    if (worker->silent) continue;
    coordinator_->Sync(worker->Report(),
                       [this, worker = worker.get()](Result<coatrack::v1::SyncResponse> response) {
                         if (!response.ok())
                           return Print(worker->name() + ": " + response.status().ToString());
                         if (!worker->holding) worker->Apply(*response);
                       });
  }
}

void Scenario::Settle() {
  int quiet = 0;
  for (int round = 0; round < kMaxRounds && quiet < 3; ++round) {
    const size_t printed = lines_.size();
    coordinator_->Dispatch();
    const bool wrote = store_.Pump();
    SyncAll();
    quiet = wrote || store_.Pump() || lines_.size() != printed ? 0 : quiet + 1;
  }
}

void Scenario::AdvanceTime(int64_t ms) {
  while (ms > 0) {
    const int64_t step = std::min(ms, kTickMs);
    ms -= step;
    clock_.steady_ms += step;
    clock_.wall_ms += step;
    for (auto& [name, worker] : workers_) worker->Age(static_cast<double>(step) / 1000.0);
    SyncAll();
    coordinator_->Tick();
    coordinator_->Dispatch();
    store_.Pump();
  }
}

std::optional<coatrack::v1::JobRow> Scenario::Row(const std::string& job) const {
  for (const auto& [sequence, row] : store_.rows()) {
    if (row.job().id() == job) return row;
  }
  return std::nullopt;
}

FakeWorker* Scenario::WorkerOf(const std::string& job, int rank) {
  const auto row = Row(job);
  if (!row.has_value() || rank >= row->attempt().ranks_size()) return nullptr;
  return workers_.at(row->attempt().ranks(rank).worker()).get();
}

void Scenario::Show() {
  coatrack::v1::ListRequest request;
  coordinator_->ListJobs(request, [this](Result<coatrack::v1::ListResponse> response) {
    for (const coatrack::v1::Job& job : response->jobs()) {
      std::string text = job.id() + " " + StateName(job.state());
      if (job.state() == coatrack::v1::JOB_STATE_PENDING) {
        text += std::string(" ") + PendingReasonName(job.pending_reason());
      }
      Print(text + ", attempt " + std::to_string(job.attempt()) + ", restarts " +
            std::to_string(job.restarts()) + (job.message().empty() ? "" : ": " + job.message()));
    }
  });
  for (const coatrack::v1::Worker& worker : coordinator_->Workers()) {
    std::string text = worker.name() + " " + StateWord(worker.state());
    if (!worker.message().empty()) text += " (" + worker.message() + ")";
    for (const coatrack::v1::Device& device : worker.devices()) {
      text += " " + device.id() + "=" + (device.job_id().empty() ? "free" : device.job_id());
    }
    Print(text);
    for (const std::string& rank : workers_.at(worker.name())->Running()) {
      Print("  runs " + rank);
    }
  }
}

bool Scenario::RunJobCommand(const std::string& verb, const std::vector<std::string>& words) {
  if (verb == "cancel" || verb == "kill") {
    Stop(words.at(0), verb == "kill");
  } else if (verb == "exit") {
    const int rank = std::stoi(words.at(1));
    FakeWorker* worker = WorkerOf(words.at(0), rank);
    coatrack::v1::Reason reason = coatrack::v1::REASON_UNSPECIFIED;
    if (worker == nullptr || !coatrack::v1::Reason_Parse("REASON_" + words.at(2), &reason)) {
      Print("no such rank or reason");
      return true;
    }
    worker->Exit({words.at(0), Row(words.at(0))->job().attempt(), rank}, reason);
  } else if (verb == "progress") {
    for (auto& [name, worker] : workers_) worker->Progress(words.at(0), std::stoll(words.at(1)));
  } else if (verb == "checkpoint") {
    for (auto& [name, worker] : workers_) {
      worker->AddCheckpoint(words.at(0), std::stoll(words.at(1)),
                            Row(words.at(0))->job().attempt());
    }
  } else {
    return false;
  }
  return true;
}

bool Scenario::RunWorkerCommand(const std::string& verb, const std::vector<std::string>& words,
                                const Options& options) {
  if (verb == "worker") {
    std::map<std::string, std::string> labels;
    const std::string label = Value(options, "label", "");
    if (!label.empty()) {
      labels[label.substr(0, label.find('='))] = label.substr(label.find('=') + 1);
    }
    workers_[words.at(0)] =
        std::make_unique<FakeWorker>(words.at(0), std::stoi(Value(options, "devices", "1")),
                                     Value(options, "root", "uuid"), std::move(labels));
    return true;
  }
  if (verb == "old-exit") {
    workers_.at(words.at(0))
        ->ReportOldExit({words.at(1), std::stoi(words.at(2)), std::stoi(words.at(3))});
    return true;
  }
  if (words.empty() || !workers_.contains(words[0])) return false;
  FakeWorker* worker = workers_.at(words[0]).get();
  if (verb == "silence" || verb == "wake") {
    worker->silent = verb == "silence";
  } else if (verb == "hold" || verb == "release") {
    worker->holding = verb == "hold";
  } else if (verb == "drain") {
    worker->draining = true;
  } else if (verb == "restart-worker" || verb == "forget") {
    worker->Restart(/*remembers=*/verb == "restart-worker");
  } else {
    return false;
  }
  return true;
}

std::vector<std::string> Scenario::Run(const std::string& command) {
  std::istringstream text(command);
  std::string verb;
  text >> verb;
  std::vector<std::string> words;
  Options options;
  for (std::string word; text >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      words.push_back(word);
    } else {
      options[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  if (verb == "submit") {
    Submit(words.at(0), options);
  } else if (verb == "settle") {
    Settle();
  } else if (verb == "advance") {
    AdvanceTime(std::stoll(words.at(0)) * 1000);
  } else if (verb == "show") {
    Show();
  } else if (verb == "restart") {
    StartCoordinator();
  } else if (verb == "disk") {
    store_.SetFull(words.at(0) == "full");
  } else if (verb == "clock") {
    clock_.wall_ms += std::stoll(words.at(0)) * 1000;
  } else if (!RunJobCommand(verb, words) && !RunWorkerCommand(verb, words, options)) {
    Print("unknown command");
  }
  return std::exchange(lines_, {});
}

std::string Scenario::Replay(const std::string& transcript) {
  Scenario scenario;
  scenario.lines_.clear();
  std::istringstream in(transcript);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("> ")) {
      out += line + "\n";
      for (const std::string& printed : scenario.Run(line.substr(2))) out += printed + "\n";
    } else if (line.empty() || line.starts_with("#")) {
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace coat
