// What coat-train prints about a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "worker/metrics/throughput.h"
#include "worker/trainer/gang.h"

namespace coat {

// Lines on stdout, one every two seconds; errors on stderr.
class RunReport {
 public:
  RunReport(const coatrack::v1::JobSpec& spec, bool quiet);
  void Begin(const coatrack::v1::RankLaunch& launch);
  void Say(const std::string& line) const;
  // Reads what rank 0 has written since the last call.
  void Update(const std::string& rank_dir);
  // Last lines; returns the exit status of coat-train.
  int Finish(const Gang::End& end, const std::string& rank_dir) const;

 private:
  void Show(const coatrack::v1::StepRecord& record);

  const int64_t steps_;
  const bool quiet_;
  int64_t offset_ = 0;
  SpeedWindow speed_{50};
  std::chrono::steady_clock::time_point last_line_;
  std::optional<double> loss_, first_validation_loss_, validation_loss_;
  int64_t skipped_ = 0;
  std::string checkpoint_;
};

}  // namespace coat
