// One worker with a fake coordinator and the fake trainer, in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/daemon_config.pb.h"
#include "tests/support/process.h"
#include "tests/worker/supervisor/fake_coordinator.h"
#include "worker/supervisor/daemon.h"

namespace coat::testing {

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest();
  ~WorkerTest() override;  // kills every rank that is left

  coatrack::v1::WorkerConfig Config() const;
  void StartDaemon();                     // in this process
  void StopDaemon() { daemon_.reset(); }  // hands over
  // The real program; its output goes to worker.log.
  std::unique_ptr<Process> StartProgram(const std::vector<std::string>& more = {},
                                        const std::vector<std::string>& environment = {}) const;
  std::string State(const std::string& name) const { return dir_.file("state/" + name); }

  // What the fake trainer does is in `labels` (fake_trainer.cc).
  coatrack::v1::DesiredRank Rank(const RankId& id,
                                 const std::map<std::string, std::string>& labels = {}) const;
  std::string Dir(const RankId& id) const;
  // Waits until the rank is reported running and has recorded `step`.
  bool WaitForStep(const RankId& id, int64_t step) const;
  std::vector<pid_t> RankProcesses() const;  // of every rank folder, alive

  TempDir dir_;
  FakeCoordinator coordinator_;
  std::string root_uuid_;
  std::unique_ptr<Daemon> daemon_;
};

std::string TrainerPath();
std::string WorkerPath();

}  // namespace coat::testing
