#include "worker/trainer/launcher.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "configs/base/error.h"
#include "configs/spec/load.h"
#include "configs/spec/validate.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/ops/device_info.h"
#include "worker/trainer/device_choice.h"
#include "worker/trainer/gang.h"
#include "worker/trainer/rank_protocol.h"
#include "worker/trainer/run_report.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using coatrack::v1::JobSpec;
using coatrack::v1::RankLaunch;

Result<JobSpec> LoadSpec(const TrainFlags& flags) {
  std::vector<std::string> overrides = flags.overrides;
  if (flags.nproc > 0) overrides.push_back("resources.ranks=" + std::to_string(flags.nproc));
  ASSIGN_OR_RETURN(LoadedJob job, LoadJobFile(flags.job, overrides));
  return job.spec;
}

// Checkpoint directory of `job`, or the newest of `dir`; empty when there is none.
Result<std::string> FindCheckpoint(const std::string& dir, std::optional<int64_t> step) {
  std::vector<std::string> skipped;
  std::string found;
  try {
    if (!step) {
      const std::unique_ptr<CheckpointReader> reader = OpenNewest(dir, &skipped);
      if (reader) found = reader->info().path;
    } else {
      for (const CheckpointInfo& info : ListCheckpoints(dir, &skipped)) {
        if (info.step == *step && found.empty()) found = info.path;
      }
    }
  } catch (const Error& e) {
    return Status(e.code(), e.what());
  }
  for (const std::string& line : skipped) std::fprintf(stderr, "passed over: %s\n", line.c_str());
  return found;
}

struct Start {
  std::string resume_dir;
  std::string init_dir;
};

Result<Start> FindStart(const TrainFlags& flags, const JobSpec& spec, const std::string& out,
                        const std::string& checkpoints) {
  Start start;
  ASSIGN_OR_RETURN(const std::string newest, FindCheckpoint(checkpoints, std::nullopt));
  if (flags.resume && newest.empty()) {
    return Status(Code::kNotFound, "--resume: there is no complete checkpoint in " + checkpoints);
  }
  if (!flags.resume && !newest.empty()) {
    return Status(Code::kFailedPrecondition,
                  newest +
                      " is of an earlier run; go on from it with --resume, or choose another "
                      "folder with --out");
  }
  start.resume_dir = newest;
  if (newest.empty() && spec.has_init_from()) {
    const auto& from = spec.init_from();
    const std::string dir = (fs::path(out).parent_path() / from.job() / "checkpoints").string();
    ASSIGN_OR_RETURN(
        start.init_dir,
        FindCheckpoint(dir, from.has_step() ? std::optional<int64_t>(from.step()) : std::nullopt));
    if (start.init_dir.empty()) {
      return Status(Code::kNotFound, "init_from: no such checkpoint in " + dir);
    }
  }
  return start;
}

Result<int> NextAttempt(const std::string& out) {
  int attempt = 1;
  for (const RankDirEntry& entry : ListRankDirs(out)) {
    if (RankIsAlive(entry.path)) {
      return Status(Code::kFailedPrecondition,
                    "a rank of an earlier run is still alive in " + entry.path +
                        "; wait for it, or choose another folder with --out");
    }
    attempt = std::max(attempt, entry.attempt + 1);
  }
  return attempt;
}

int ThreadsPerRank(const TrainFlags& flags, const JobSpec& spec) {
  if (flags.threads > 0) return flags.threads;
  if (spec.resources().has_threads()) return spec.resources().threads();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / spec.resources().ranks());
}

// What all ranks share; the rank itself and its device are left out.
Result<RankLaunch> MakeLaunch(const TrainFlags& flags, const JobSpec& spec) {
  std::string out = flags.out.empty() ? "coat-runs/" + spec.name() : flags.out;
  out = fs::absolute(out).lexically_normal().string();
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  ASSIGN_OR_RETURN(const int attempt, NextAttempt(out));
  const std::string checkpoints = out + "/checkpoints";
  ASSIGN_OR_RETURN(const Start start, FindStart(flags, spec, out, checkpoints));
  RankLaunch launch;
  launch.set_job_id(spec.name());
  launch.set_attempt(attempt);
  launch.set_world_size(spec.resources().ranks());
  launch.set_threads(ThreadsPerRank(flags, spec));
  std::string data_root = flags.data_root;
  if (data_root.empty()) data_root = flags.job == "-" ? "." : fs::path(flags.job).parent_path();
  launch.set_data_root(fs::absolute(data_root.empty() ? "." : data_root).string());
  launch.set_checkpoint_dir(checkpoints);
  launch.set_resume_dir(start.resume_dir);
  launch.set_init_dir(start.init_dir);
  launch.set_store_dir(out + "/rendezvous/" + std::to_string(attempt));
  launch.set_advertise_address("127.0.0.1");
  std::error_code error;
  fs::create_directories(checkpoints, error);
  if (error) return Status(Code::kIo, "cannot create " + checkpoints + ": " + error.message());
  return launch;
}

// Blocks the signals that Watch answers, and unblocks them at the end.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockedSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // Waits at most `milliseconds`; true when one of them came.
  bool Wait(int milliseconds) const {
    const timespec timeout{0, milliseconds * 1'000'000L};
    return ::sigtimedwait(&set_, nullptr, &timeout) > 0;
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

int Watch(Gang* gang, RunReport* report, const BlockedSignals& signals) {
  int interrupts = 0;
  while (!gang->Poll()) {
    report->Update(gang->dir(0));
    if (!signals.Wait(50)) continue;
    if (++interrupts == 1) {
      report->Say("stopping after this step, with a checkpoint; once more stops at once");
      gang->Signal(SIGTERM);
    } else {
      gang->Signal(SIGKILL);
    }
  }
  report->Update(gang->dir(0));
  return report->Finish(gang->Verdict(), gang->dir(0));
}

int Fail(const Status& status) {
  std::fprintf(stderr, "coat-train: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int RunJob(const TrainFlags& flags, const std::string& trainer_path) {
  const Result<JobSpec> spec = LoadSpec(flags);
  if (!spec.ok()) return Fail(spec.status());
  const Result<std::vector<std::string>> devices = ChooseDevices(*spec, CountCudaDevices);
  if (!devices.ok()) return Fail(devices.status());
  Result<RankLaunch> launch = MakeLaunch(flags, *spec);
  if (!launch.ok()) return Fail(launch.status());
  const BlockedSignals signals;
  RunReport report(*spec, flags.quiet);
  launch->set_device(devices->front());
  report.Begin(*launch);
  const std::string state_dir = fs::path(launch->checkpoint_dir()).parent_path();
  Gang gang;
  for (int rank = 0; rank < launch->world_size(); ++rank) {
    launch->set_rank(rank);
    launch->set_device((*devices)[static_cast<size_t>(rank)]);
    const Status started = gang.Start(state_dir, *launch, *spec, trainer_path);
    if (!started.ok()) {
      gang.Signal(SIGKILL);
      return Fail(started);
    }
  }
  return Watch(&gang, &report, signals);
}

}  // namespace coat
