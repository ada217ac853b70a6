#include "tests/worker/supervisor/worker_fixture.h"

#include <signal.h>

#include <filesystem>

#include "worker/supervisor/session_kill.h"
#include "worker/supervisor/storage_roots.h"
#include "worker/trainer/rank_protocol.h"

namespace coat::testing {

std::string TrainerPath() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake-trainer").string();
}

std::string WorkerPath() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" /
          "coat-worker")
      .string();
}

WorkerTest::WorkerTest() {
  coatrack::v1::StorageRootConfig root;
  root.set_name("default");
  root.set_path(dir_.file("root"));
  root_uuid_ = OpenStorageRoot(root).value().uuid;
}

WorkerTest::~WorkerTest() {
  daemon_.reset();
  for (const RankDirEntry& entry : ListRankDirs(dir_.file("state"))) KillRank(entry.path);
  WaitUntil([this] { return RankProcesses().empty(); });
}

coatrack::v1::WorkerConfig WorkerTest::Config() const {
  coatrack::v1::WorkerConfig config;
  config.set_name("w1");
  config.set_server(coordinator_.address());
  config.set_state_dir(dir_.file("state"));
  config.set_data_root(dir_.file("data"));
  config.set_advertise_address("127.0.0.1");
  config.set_health_listen("127.0.0.1:0");
  config.set_metrics_listen("127.0.0.1:0");
  config.set_cpu_slots(2);
  config.set_reserve_bytes(64 << 20);
  config.set_trainer_path(TrainerPath());
  config.mutable_drain_grace()->set_seconds(10);
  auto* root = config.add_roots();
  root->set_name("default");
  root->set_path(dir_.file("root"));
  return config;
}

void WorkerTest::StartDaemon() {
  auto daemon = Daemon::Start(Config());
  ASSERT_TRUE(daemon.ok()) << daemon.status().message();
  daemon_ = std::move(daemon).value();
}

std::unique_ptr<Process> WorkerTest::StartProgram(
    const std::vector<std::string>& more, const std::vector<std::string>& environment) const {
  ProcessOptions options;
  options.environment = environment;
  options.output_path = dir_.file("worker.log");
  const coatrack::v1::WorkerConfig config = Config();
  std::vector<std::string> argv = {WorkerPath(),
                                   "--name",
                                   config.name(),
                                   "--server",
                                   config.server(),
                                   "--state-dir",
                                   config.state_dir(),
                                   "--data-root",
                                   config.data_root(),
                                   "--root",
                                   "default=" + dir_.file("root"),
                                   "--cpu-slots",
                                   "2",
                                   "--reserve-bytes",
                                   "67108864",
                                   "--health-listen",
                                   "127.0.0.1:0",
                                   "--metrics-listen",
                                   "127.0.0.1:0",
                                   "--trainer-path",
                                   config.trainer_path(),
                                   "--drain-grace",
                                   "10s"};
  argv.insert(argv.end(), more.begin(), more.end());
  return std::make_unique<Process>(argv, options);
}

coatrack::v1::DesiredRank WorkerTest::Rank(const RankId& id,
                                           const std::map<std::string, std::string>& labels) const {
  coatrack::v1::DesiredRank rank;
  SetRankKey(id, rank.mutable_key());
  rank.set_world_size(2);
  rank.set_device("cpu:" + std::to_string(id.rank % 2));
  rank.set_threads(1);
  rank.set_root_uuid(root_uuid_);
  rank.mutable_spec()->set_name("tiny");
  rank.mutable_spec()->mutable_precision()->set_recipe(coatrack::v1::RECIPE_COAT);
  for (const auto& [key, value] : labels) (*rank.mutable_spec()->mutable_labels())[key] = value;
  return rank;
}

std::string WorkerTest::Dir(const RankId& id) const {
  return RankDir(dir_.file("state"), id.job_id, id.attempt, id.rank);
}

bool WorkerTest::WaitForStep(const RankId& id, int64_t step) const {
  return coordinator_.WaitForState(id, coatrack::v1::RANK_STATE_RUNNING) && WaitUntil([&] {
           const auto chunk = ReadRecords(Dir(id), 0, 1 << 20);
           return chunk.ok() && !chunk->records.empty() && chunk->records.back().step() >= step;
         });
}

std::vector<pid_t> WorkerTest::RankProcesses() const {
  std::vector<pid_t> found;
  for (const RankDirEntry& entry : ListRankDirs(dir_.file("state"))) {
    if (const auto pids = ReadRankPids(entry.path); pids.ok()) {
      found.push_back(pids->parent);
      if (pids->rank != 0) found.push_back(pids->rank);
    }
  }
  return found;
}

}  // namespace coat::testing
