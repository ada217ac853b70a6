// A coordinator and workers as real processes on loopback, in a folder of their own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/job_service.grpc.pb.h"
#include "tests/support/process.h"

namespace coat::testing {

// Beyond the spread of reconnects (10 s) together, so that a restarted coordinator loses nobody.
struct Limits {
  int lease_s = 6;
  int lost_after_s = 10;
  int stall_floor_s = 60;
  int load_limit_s = 600;
};

// Everything stops with the object; no process of it is left then.
class Cluster {
 public:
  explicit Cluster(Limits limits = Limits());
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // ---- processes
  // ----------------------------------------------------------------------------------
  void StartServer();  // later starts bind the same port
  // `server`: another way to the coordinator, host:port.
  void StartWorker(const std::string& name, int cpu_slots, const std::string& server = "");
  Process* server() { return server_.get(); }
  Process* worker(const std::string& name);
  std::string StateDir(const std::string& worker) const { return dir_.file(worker); }
  std::string data_root() const { return dir_.file("data"); }
  std::string root() const { return dir_.file("root"); }
  std::string Log(const std::string& name) const { return ReadFile(dir_.file(name + ".log")); }
  // Living processes of any rank of this cluster: trainers and their parents.
  std::vector<pid_t> RankProcesses() const;
  // Directory of a rank on whichever worker has it; empty: none has.
  std::string RankDirOf(const std::string& job, int attempt, int rank) const;
  // The programs under test stand beside each other.
  static std::string Program(const std::string& name);

  // ---- jobs
  // ----------------------------------------------------------------------------------------- A
  // tiny job over `ranks` CPU ranks, with a checkpoint every 20 steps.
  coatrack::v1::JobSpec TinyJob(int steps, int ranks) const;
  std::string WriteJobFile(const coatrack::v1::JobSpec& spec) const;
  coatrack::v1::WorkerState WorkerState(const std::string& worker);  // unspecified: unknown
  int port() const { return port_; }
  std::string Submit(const coatrack::v1::JobSpec& spec);  // the id; fails the test otherwise
  coatrack::v1::Job Get(const std::string& id);           // empty while the coordinator is away
  void Cancel(const std::string& id);
  // What the coordinator has of rank 0's curve, one record a step.
  std::vector<coatrack::v1::StepRecord> Records(const std::string& id);
  // False after the time-out; the job's last state is then in the test's output.
  bool WaitFor(const std::string& id,
               const std::function<bool(const coatrack::v1::Job&)>& condition, int timeout_s = 240);
  bool WaitForState(const std::string& id, coatrack::v1::JobState state, int timeout_s = 240);
  bool WaitForStep(const std::string& id, int64_t step);  // in the newest attempt, running
  // The `coat` command against this cluster.
  Finished Coat(std::vector<std::string> arguments) const;

 private:
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  Process* Start(const std::string& name, const std::vector<std::string>& argv);

  const Limits limits_;
  TempDir dir_;
  int port_ = 0;
  std::unique_ptr<Process> server_;
  std::vector<std::pair<std::string, std::unique_ptr<Process>>> workers_;
  std::unique_ptr<coatrack::v1::JobService::Stub> stub_;
};

}  // namespace coat::testing
