#include "tests/e2e/cluster.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "configs/spec/writer.h"
#include "worker/trainer/rank_protocol.h"

namespace coat::testing {
namespace {

namespace fs = std::filesystem;

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
}

// Text with some structure, the same every time.
std::string Corpus() {
  std::string text;
  uint32_t state = 12345;
  for (int word = 0; word < 12000; ++word) {
    state = state * 1664525 + 1013904223;
    const int length = 2 + static_cast<int>(state >> 29);
    for (int i = 0; i < length; ++i) {
      text += static_cast<char>('a' + (state >> (8 + i)) % 13);
    }
    text += word % 11 == 10 ? ".\n" : " ";
  }
  return text;
}

int PortIn(const std::string& path) {
  const std::string text = ReadFile(path);
  const size_t at = text.find("\"listen\"");
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + text.find(':', at) + 1);
}

}  // namespace

Cluster::Cluster(Limits limits) : limits_(limits) {
  fs::create_directories(data_root());
  WriteFile(data_root() + "/corpus.txt", Corpus());
}

Cluster::~Cluster() {
  for (auto& [name, worker] : workers_) worker->Signal(SIGKILL);
  const bool gone = WaitUntil([this] {
    for (const pid_t pid : RankProcesses()) kill(pid, SIGKILL);
    return RankProcesses().empty();
  });
  EXPECT_TRUE(gone) << "processes of ranks outlive the test";
}

std::string Cluster::Program(const std::string& name) {
  return (fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" / name).string();
}

Process* Cluster::worker(const std::string& name) {
  for (auto& [known, process] : workers_) {
    if (known == name) return process.get();
  }
  return nullptr;
}

void Cluster::StartServer() {
  const std::string state = dir_.file("server");
  const std::string ports = state + "/ports.json";
  fs::remove(ports);
  ProcessOptions options;
  options.output_path = dir_.file("server.log");
  const std::string config = dir_.file("server.yaml");
  WriteFile(config,
            "api_version: coatrack/v1\n"
            "health_listen: \"127.0.0.1:0\"\n"
            "metrics_listen: \"127.0.0.1:0\"\n"
            "grace: 20s\n"
            "reconcile_wait: 3s\n"
            "retry_backoff: 100ms\n"
            "lease: " +
                std::to_string(limits_.lease_s) +
                "s\n"
                "lost_after: " +
                std::to_string(limits_.lost_after_s) +
                "s\n"
                "stall_floor: " +
                std::to_string(limits_.stall_floor_s) +
                "s\n"
                "load_limit: " +
                std::to_string(limits_.load_limit_s) + "s\n");
  server_ = std::make_unique<Process>(
      std::vector<std::string>{Program("coat-server"), "--config", config, "--listen", address(),
                               "--state-dir", state},
      options);
  ASSERT_TRUE(WaitUntil([&] { return PortIn(ports) != 0; })) << Log("server");
  port_ = PortIn(ports);
  stub_ = coatrack::v1::JobService::NewStub(
      grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
}

coatrack::v1::WorkerState Cluster::WorkerState(const std::string& worker) {
  grpc::ClientContext context;
  SetDeadline(&context);
  coatrack::v1::ListWorkersResponse response;
  if (stub_->ListWorkers(&context, {}, &response).ok()) {
    for (const auto& known : response.workers()) {
      if (known.name() == worker) return known.state();
    }
  }
  return coatrack::v1::WORKER_STATE_UNSPECIFIED;
}

void Cluster::StartWorker(const std::string& name, int cpu_slots, const std::string& server) {
  ProcessOptions options;
  options.output_path = dir_.file(name + ".log");
  auto process =
      std::make_unique<Process>(std::vector<std::string>{Program("coat-worker"),
                                                         "--name",
                                                         name,
                                                         "--server",
                                                         server.empty() ? address() : server,
                                                         "--state-dir",
                                                         StateDir(name),
                                                         "--data-root",
                                                         data_root(),
                                                         "--root",
                                                         "default=" + root(),
                                                         "--cpu-slots",
                                                         std::to_string(cpu_slots),
                                                         "--reserve-bytes",
                                                         "67108864",
                                                         "--health-listen",
                                                         "127.0.0.1:0",
                                                         "--metrics-listen",
                                                         "127.0.0.1:0",
                                                         "--drain-grace",
                                                         "20s"},
                                options);
  for (auto& [known, worker] : workers_) {
    if (known != name) continue;
    worker = std::move(process);
    return;
  }
  workers_.emplace_back(name, std::move(process));
}

std::vector<pid_t> Cluster::RankProcesses() const {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const std::string command = ReadFile(entry.path() / "cmdline");
    const bool rank = command.find("--rank-dir") != std::string::npos &&
                      command.find(dir_.path().string()) != std::string::npos;
    // A killed process that nobody has reaped yet has an empty command line.
    if (rank) found.push_back(pid);
  }
  return found;
}

std::string Cluster::RankDirOf(const std::string& job, int attempt, int rank) const {
  for (const auto& [name, process] : workers_) {
    const std::string dir = RankDir(StateDir(name), job, attempt, rank);
    if (fs::exists(dir)) return dir;
  }
  return "";
}

coatrack::v1::JobSpec Cluster::TinyJob(int steps, int ranks) const {
  coatrack::v1::JobSpec spec;
  spec.set_api_version("coatrack/v1");
  spec.set_name("tiny");
  auto* model = spec.mutable_model();
  model->set_family(coatrack::v1::MODEL_FAMILY_LLAMA);
  model->set_hidden_size(64);
  model->set_layers(2);
  model->set_heads(4);
  model->set_intermediate_size(128);
  spec.mutable_data()->add_text("corpus.txt");
  auto* train = spec.mutable_train();
  train->set_steps(steps);
  train->set_sequence_length(64);
  train->set_global_batch(4);
  train->set_micro_batch(2);
  train->set_seed(7);
  train->set_eval_sequences(8);
  spec.mutable_optimizer()->set_lr(3e-3);
  spec.mutable_optimizer()->set_warmup_steps(10);
  spec.mutable_resources()->set_ranks(ranks);
  spec.mutable_resources()->set_device(coatrack::v1::DEVICE_KIND_CPU);
  spec.mutable_checkpoint()->set_root("default");
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_keep(2);
  return spec;
}

std::string Cluster::WriteJobFile(const coatrack::v1::JobSpec& spec) const {
  const std::string path = dir_.file("job.yaml");
  WriteFile(path, ToYaml(spec));
  return path;
}

std::string Cluster::Submit(const coatrack::v1::JobSpec& spec) {
  coatrack::v1::SubmitRequest request;
  *request.mutable_spec() = spec;
  coatrack::v1::SubmitResponse response;
  grpc::ClientContext context;
  SetDeadline(&context);
  context.set_wait_for_ready(true);
  const grpc::Status status = stub_->Submit(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.job().id();
}

coatrack::v1::Job Cluster::Get(const std::string& id) {
  coatrack::v1::GetRequest request;
  request.set_job(id);
  coatrack::v1::GetResponse response;
  grpc::ClientContext context;
  SetDeadline(&context);
  stub_->Get(&context, request, &response);
  return response.job();
}

void Cluster::Cancel(const std::string& id) {
  coatrack::v1::CancelRequest request;
  request.set_job(id);
  coatrack::v1::CancelResponse response;
  grpc::ClientContext context;
  SetDeadline(&context);
  const grpc::Status status = stub_->Cancel(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

std::vector<coatrack::v1::StepRecord> Cluster::Records(const std::string& id) {
  coatrack::v1::StreamMetricsRequest request;
  request.set_job(id);
  request.set_after_step(-1);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = stub_->StreamMetrics(&context, request);
  std::vector<coatrack::v1::StepRecord> records;
  coatrack::v1::StreamMetricsResponse response;
  while (stream->Read(&response)) {
    records.insert(records.end(), response.records().begin(), response.records().end());
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return records;
}

bool Cluster::WaitFor(const std::string& id,
                      const std::function<bool(const coatrack::v1::Job&)>& condition,
                      int timeout_s) {
  coatrack::v1::Job job;
  const bool reached = WaitUntil(
      [&] {
        job = Get(id);
        return condition(job);
      },
      std::chrono::seconds(timeout_s));
  if (!reached) {
    std::printf("waited in vain for job %s:\n%s\nserver:\n%s\n", id.c_str(), ToYaml(job).c_str(),
                Log("server").c_str());
    for (const auto& [name, worker] : workers_) {
      std::printf("%s:\n%s\n", name.c_str(), Log(name).c_str());
    }
  }
  return reached;
}

bool Cluster::WaitForState(const std::string& id, coatrack::v1::JobState state, int timeout_s) {
  return WaitFor(
      id, [&](const coatrack::v1::Job& job) { return job.state() == state; }, timeout_s);
}

bool Cluster::WaitForStep(const std::string& id, int64_t step) {
  return WaitFor(id, [&](const coatrack::v1::Job& job) {
    return job.state() == coatrack::v1::JOB_STATE_RUNNING && job.step() >= step;
  });
}

Finished Cluster::Coat(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), Program("coat"));
  arguments.insert(arguments.end(), {"--server", address()});
  return RunProgram(arguments);
}

}  // namespace coat::testing
