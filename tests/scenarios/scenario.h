// Runs the commands of a transcript against a Coordinator and prints what happens.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/loops/coordinator.h"
#include "tests/scenarios/fake_store.h"
#include "tests/scenarios/fake_worker.h"
#include "tests/support/process.h"

namespace coat {

class ScenarioClock final : public Clock {
 public:
  int64_t SteadyMs() const override { return steady_ms; }
  int64_t WallMs() const override { return wall_ms; }
  int64_t steady_ms = 1'000'000;
  int64_t wall_ms = 1'767'225'600'000;
};

class Scenario {
 public:
  Scenario();
  ~Scenario();

  // One command; returns the lines it prints.
  std::vector<std::string> Run(const std::string& command);

  // A transcript with the outputs of its commands replaced by what they print now. Comments (#) and
  // empty lines stay.
  static std::string Replay(const std::string& transcript);

 private:
  using Options = std::map<std::string, std::string>;

  void Print(const std::string& line) { lines_.push_back("  " + line); }
  void StartCoordinator();
  void Submit(const std::string& name, const Options& options);
  void SyncAll();
  void Settle();
  void AdvanceTime(int64_t ms);
  void Show();
  // Null when the job has no such rank now.
  FakeWorker* WorkerOf(const std::string& job, int rank);
  std::optional<coatrack::v1::JobRow> Row(const std::string& job) const;
  void Stop(const std::string& job, bool now);
  bool RunJobCommand(const std::string& verb, const std::vector<std::string>& words);
  bool RunWorkerCommand(const std::string& verb, const std::vector<std::string>& words,
                        const Options& options);

  std::vector<std::string> lines_;
  testing::TempDir dir_;
  ScenarioClock clock_;
  FakeStore store_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Coordinator> coordinator_;
  std::map<std::string, std::unique_ptr<FakeWorker>> workers_;
  int jobs_ = 0;
};

}  // namespace coat
