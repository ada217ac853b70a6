#include "tests/worker/trainer/tiny_world.h"

#include <cstring>
#include <thread>

#include "configs/spec/defaults.h"
#include "configs/spec/validate.h"
#include "tests/support/process.h"
#include "worker/collectives/single.h"
#include "worker/trainer/rank_protocol.h"

namespace coat::testing {

using coatrack::v1::JobSpec;
using coatrack::v1::RankLaunch;
using coatrack::v1::StepRecord;

JobSpec TinyJob(const std::string& data_root) {
  std::string text;
  uint32_t x = 12345;
  for (int i = 0; i < 60; ++i) {
    x = x * 1664525u + 1013904223u;
    text += "line " + std::to_string(x >> 20) + " says what it says\n";
  }
  WriteFile(data_root + "/corpus.txt", text);
  JobSpec spec;
  spec.set_api_version("coatrack/v1");
  spec.set_name("tiny");
  auto* model = spec.mutable_model();
  model->set_family(coatrack::v1::MODEL_FAMILY_LLAMA);
  model->set_hidden_size(32);
  model->set_layers(2);
  model->set_heads(2);
  model->set_intermediate_size(48);
  spec.mutable_data()->add_text("corpus.txt");
  spec.mutable_data()->set_validation_fraction(0.1);
  auto* train = spec.mutable_train();
  train->set_steps(6);
  train->set_sequence_length(16);
  train->set_global_batch(4);
  train->set_micro_batch(1);
  train->set_seed(11);
  train->set_eval_sequences(5);
  spec.mutable_optimizer()->set_lr(3e-3);
  spec.mutable_optimizer()->set_schedule(coatrack::v1::SCHEDULE_CONSTANT);
  spec.mutable_resources()->set_device(coatrack::v1::DEVICE_KIND_CPU);
  spec.mutable_checkpoint()->set_keep(100);
  Violations violations = ApplyDefaults(&spec);
  const Violations more = ValidateJobSpec(spec);
  violations.insert(violations.end(), more.begin(), more.end());
  if (!violations.empty()) throw Error(ViolationsToStatus(violations));
  return spec;
}

void MemorySink::Write(const StepRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  if (on_write) on_write(record);
}

std::vector<StepRecord> MemorySink::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

std::vector<double> RankResult::losses() const {
  std::vector<double> losses;
  for (const StepRecord& record : records) {
    if (record.has_loss()) losses.push_back(record.loss());
  }
  return losses;
}

std::optional<double> RankResult::loss_of(int64_t step) const {
  for (const StepRecord& r : records) {
    if (r.step() == step && r.has_loss()) return r.loss();
  }
  return std::nullopt;
}

const StepRecord& RankResult::record(int64_t step) const {
  for (const StepRecord& r : records) {
    if (r.step() == step && (step == 0 || r.tokens() > 0)) return r;
  }
  throw std::runtime_error("no record of step " + std::to_string(step) + ": " + message);
}

namespace {

RankLaunch LaunchOf(const JobSpec& spec, const WorldOptions& options, int rank) {
  RankLaunch launch;
  launch.set_job_id(spec.name());
  launch.set_attempt(options.attempt);
  launch.set_rank(rank);
  launch.set_world_size(options.world_size);
  launch.set_device("cpu");
  launch.set_threads(1);
  launch.set_data_root(options.data_root);
  launch.set_checkpoint_dir(options.checkpoint_dir);
  launch.set_resume_dir(options.resume_dir);
  launch.set_init_dir(options.init_dir);
  if (options.change_launch) options.change_launch(&launch);
  return launch;
}

// Builds a session on each rank's thread and hands it over; errors end in `results`.
void ForEachRank(const JobSpec& job, const WorldOptions& options, std::vector<RankResult>* results,
                 const std::function<void(Session*, RankResult*)>& body) {
  JobSpec spec = job;
  spec.mutable_resources()->set_ranks(options.world_size);
  std::vector<std::unique_ptr<Collectives>> all =
      CreateLocalCollectives(options.world_size, 60'000);
  if (options.world_size == 1) all[0] = CreateSingleRankCollectives();  // for GPUs, too
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const size_t r = static_cast<size_t>(rank);
      RankResult& result = (*results)[r];
      try {
        const std::unique_ptr<Session> session =
            BuildSession(LaunchOf(spec, options, rank), spec, [&] { return std::move(all[r]); });
        if (options.after_build) options.after_build(session.get());
        body(session.get(), &result);
      } catch (const Error& e) {
        result.code = e.code();
        result.message = e.what();
      }
      all[r].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void TrainRank(const WorldOptions& options, Session* session, RankResult* result) {
  const SystemClock clock;
  MemorySink sink;
  std::atomic<bool> stop{false};
  if (options.on_record) {
    sink.on_write = [&](const StepRecord& record) {
      options.on_record(session->rank(), record, &stop);
    };
  }
  Progress progress(session->launch.attempt(), session->rank(), &sink, &clock);
  progress.SetCollectives(session->collectives.get());
  TrainLoop loop(session, &progress, &stop);
  try {
    result->outcome = loop.Run();
  } catch (const Error& e) {
    result->code = e.code();
    result->message = e.what();
  }
  for (const StepRecord& record : sink.records()) {
    if (!IsProgressOnly(record)) result->records.push_back(record);
  }
  result->weights_hash = loop.weights_hash();
  result->state = session->state;
  for (const StateTensor& tensor : session->optimizer->StateTensors()) {
    std::vector<char>& bytes = result->moments.emplace_back(tensor.tensor.bytes());
    session->ops->ToHost(tensor.tensor, bytes.data());
    session->ops->Synchronize();
  }
}

}  // namespace

std::vector<RankResult> RunWorld(const JobSpec& spec, const WorldOptions& options) {
  std::vector<RankResult> results(static_cast<size_t>(options.world_size));
  ForEachRank(spec, options, &results,
              [&](Session* session, RankResult* result) { TrainRank(options, session, result); });
  return results;
}

void WithSessions(const JobSpec& spec, const WorldOptions& options,
                  const std::function<void(Session*)>& body) {
  std::vector<RankResult> results(static_cast<size_t>(options.world_size));
  ForEachRank(spec, options, &results, [&](Session* session, RankResult*) { body(session); });
  for (const RankResult& result : results) {
    if (result.code != Code::kOk) throw Error(result.code, result.message);
  }
}

void MaskData(Session* session, MaskedDataset::Mask mask) {
  session->dataset = std::make_unique<MaskedDataset>(std::move(session->dataset), std::move(mask));
  session->feeder = std::make_unique<BatchFeeder>(session->spec, session->dataset.get(),
                                                  session->ops.get(), session->arena.get());
}

}  // namespace coat::testing
